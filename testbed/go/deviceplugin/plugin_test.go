package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// startPlugin runs a plugin for the test and connects as a kubelet does.
func startPlugin(t *testing.T) (*plugin, *grpc.ClientConn, string) {
	directory, err := os.MkdirTemp("", "dp") // short: a Unix socket's path takes 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	unhealthy, socket := filepath.Join(directory, "unhealthy"), filepath.Join(directory, "reg", "s.sock")
	if err := os.Mkdir(unhealthy, 0o755); err != nil {
		t.Fatal(err)
	}
	p := newPlugin("nvidia.com/gpu", inventory("gpu-1", 2), filepath.Join(directory, "nvidia-smi"), unhealthy)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.serve(ctx, socket) }()
	go p.watchHealth(ctx)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		connection.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error("serve ended with", err)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Error("the socket stays behind: the kubelet would not drop the plugin")
		}
	})
	return p, connection, unhealthy
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestOneSocketAnswersThePluginWatcher(t *testing.T) {
	_, connection, _ := startPlugin(t)
	info, err := registration.NewRegistrationClient(connection).GetInfo(
		deadline(t), &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.Type != "DevicePlugin" || info.Name != "nvidia.com/gpu" || info.Endpoint != "" {
		t.Fatal(info, err)
	}
}

func TestAChangeOfHealthReachesTheKubelet(t *testing.T) {
	p, connection, unhealthy := startPlugin(t)
	stream, err := api.NewDevicePluginClient(connection).ListAndWatch(deadline(t), &api.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(health string) {
		t.Helper()
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if answer.Devices[0].Health != api.Healthy || answer.Devices[1].Health != health {
			t.Fatal(answer.Devices)
		}
	}
	file := filepath.Join(unhealthy, p.devices[1].uuid)
	expect(api.Healthy)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(api.Unhealthy)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect(api.Healthy)
}

func TestAContainerGetsItsOwnDevicesAndASimulatedNvidiaSmi(t *testing.T) {
	p, connection, unhealthy := startPlugin(t)
	client := api.NewDevicePluginClient(connection)
	ask := func(id string) (*api.AllocateResponse, error) {
		request := &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{id}}}}
		return client.Allocate(deadline(t), request, grpc.WaitForReady(true))
	}
	answer, err := ask(p.devices[1].uuid)
	if err != nil {
		t.Fatal(err)
	}
	container := answer.ContainerResponses[0]
	if container.Envs["NVIDIA_VISIBLE_DEVICES"] != p.devices[1].uuid || container.Envs["RAYFLIGHT_SIMULATED_GPU"] != "1" {
		t.Fatal(container.Envs)
	}
	if container.Mounts[0].ContainerPath != "/usr/bin/nvidia-smi" || container.Mounts[1].HostPath != unhealthy {
		t.Fatal(container.Mounts)
	}
	if _, err := ask("GPU-of-nobody"); err == nil {
		t.Fatal("a device of another node was allocated")
	}
}
