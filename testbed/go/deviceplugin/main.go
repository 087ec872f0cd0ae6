// Command deviceplugin advertises simulated GPUs to one kubelet, so that nvidia.com/gpu can be asked for on a machine
// that has none. Everything it shows says SIMULATED. It talks to the kubelet that owns --root-dir and to nobody else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC | log.Lmsgprefix)
	options, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "deviceplugin:", err)
		os.Exit(2)
	}
	log.SetPrefix("[" + options.node + "] ")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, options); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	rootDir, stateDir, node, resource, product, driver string
	gpus, memoryMiB                                    int
}

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("deviceplugin", flag.ContinueOnError)
	flags.StringVar(&o.rootDir, "root-dir", "", "the kubelet's --root-dir")
	flags.StringVar(&o.stateDir, "state-dir", "", "a directory of this plugin's own: nvidia-smi and unhealthy/")
	flags.StringVar(&o.node, "node", "", "the Kubernetes node's name")
	flags.StringVar(&o.resource, "resource", "nvidia.com/gpu", "the extended resource")
	flags.StringVar(&o.product, "product", "SIMULATED NVIDIA A100-SXM4-40GB", "the product name; it has to say SIMULATED")
	flags.StringVar(&o.driver, "driver", "580.00.00-simulated", "the driver version that nvidia-smi reports")
	flags.IntVar(&o.gpus, "gpus", 4, "how many GPUs")
	flags.IntVar(&o.memoryMiB, "memory-mib", 40960, "memory of each GPU")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	return o, o.check()
}

func run(ctx context.Context, o options) error {
	unhealthy := filepath.Join(o.stateDir, "unhealthy")
	if err := os.MkdirAll(unhealthy, 0o755); err != nil {
		return err
	}
	devices := inventory(o.node, o.gpus)
	script := filepath.Join(o.stateDir, "nvidia-smi")
	if err := writeScript(script, o, devices); err != nil {
		return err
	}
	plugin := newPlugin(o.resource, devices, script, unhealthy)
	go plugin.watchHealth(ctx)
	return plugin.serve(ctx, filepath.Join(o.rootDir, "plugins_registry", "rayflight-simulated-gpu.sock"))
}
