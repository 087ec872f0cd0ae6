package main

import (
	"context"
	"log"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	healthInterval = 200 * time.Millisecond
	// Where containers see the switch: nvidia-smi shows a sick GPU's numbers from there.
	switchInContainer = "/run/rayflight-simulated-gpus"
)

// plugin serves both halves on one socket. The classic way (a call to /var/lib/kubelet/device-plugins/kubelet.sock) is a
// constant whatever the kubelet's --root-dir says: two kubelets on one machine fight for it. The kubelet's plugin
// watcher looks into its own root directory instead.
type plugin struct {
	api.UnimplementedDevicePluginServer
	registration.UnimplementedRegistrationServer
	resource, script, unhealthy string
	devices                     []device

	mutex   sync.Mutex
	sick    map[string]bool
	changed chan struct{} // closed at each change of health, then replaced
}

func newPlugin(resource string, devices []device, script, unhealthy string) *plugin {
	p := &plugin{resource: resource, devices: devices, script: script, unhealthy: unhealthy}
	p.changed = make(chan struct{})
	p.sick, _ = sick(unhealthy, devices) // an unreadable switch is reported by watchHealth
	return p
}

// serve answers on the socket until the context ends, then takes the socket away: the kubelet then drops the plugin.
func (p *plugin) serve(ctx context.Context, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) { // left by a killed plugin
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	registration.RegisterRegistrationServer(server, p)
	go func() {
		<-ctx.Done()
		log.Print("stopping: the kubelet will see no ", p.resource)
		server.Stop() // not graceful: ListAndWatch never ends by itself
	}()
	log.Printf("serving %d × %s on %s", len(p.devices), p.resource, socket)
	return server.Serve(listener)
}

func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.DevicePlugin, Name: p.resource, SupportedVersions: []string{api.Version},
	}, nil
}

func (p *plugin) NotifyRegistrationStatus(
	_ context.Context, result *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered=%t %s", result.PluginRegistered, result.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		devices, changed := p.list()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (p *plugin) list() ([]*api.Device, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	devices := make([]*api.Device, len(p.devices))
	for i, d := range p.devices {
		devices[i] = &api.Device{ID: d.uuid, Health: api.Healthy}
		if p.sick[d.uuid] {
			devices[i].Health = api.Unhealthy
		}
	}
	return devices, p.changed
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		for _, id := range container.DevicesIds {
			if !p.knows(id) {
				return nil, status.Errorf(codes.InvalidArgument, "device %s is not one of this node's", id)
			}
		}
		log.Printf("allocated %s", strings.Join(container.DevicesIds, ","))
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{
				"NVIDIA_VISIBLE_DEVICES":  strings.Join(container.DevicesIds, ","),
				"RAYFLIGHT_SIMULATED_GPU": "1",
			},
			Mounts: []*api.Mount{
				{ContainerPath: "/usr/bin/nvidia-smi", HostPath: p.script, ReadOnly: true},
				{ContainerPath: switchInContainer, HostPath: p.unhealthy, ReadOnly: true},
			},
		})
	}
	return response, nil
}

func (p *plugin) knows(id string) bool {
	for _, d := range p.devices {
		if d.uuid == id {
			return true
		}
	}
	return false
}

// watchHealth polls the switch: a directory that people and tests write to needs no more.
func (p *plugin) watchHealth(ctx context.Context) {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	unreadable := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := sick(p.unhealthy, p.devices)
		if err != nil {
			if !unreadable {
				log.Print("health switch: ", err)
			}
			unreadable = true
			continue
		}
		unreadable = false
		p.setSick(now)
	}
}

func (p *plugin) setSick(now map[string]bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if maps.Equal(now, p.sick) {
		return
	}
	for _, d := range p.devices {
		if now[d.uuid] != p.sick[d.uuid] {
			log.Printf("GPU %d %s healthy=%t", d.index, d.uuid, !now[d.uuid])
		}
	}
	p.sick = now
	close(p.changed)
	p.changed = make(chan struct{})
}
