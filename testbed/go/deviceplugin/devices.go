package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

const maxGPUs = 64 // the PCI addresses below are made for that many

type device struct {
	index int
	uuid  string
	busID string
}

func (o options) check() error {
	switch {
	case o.rootDir == "" || o.stateDir == "" || o.node == "":
		return errors.New("--root-dir, --state-dir and --node are needed")
	case o.gpus < 1 || o.gpus > maxGPUs:
		return fmt.Errorf("--gpus %d: it takes 1 to %d", o.gpus, maxGPUs)
	case o.memoryMiB < 1:
		return fmt.Errorf("--memory-mib %d: it takes 1 or more", o.memoryMiB)
	case !strings.Contains(o.product, "SIMULATED"):
		return fmt.Errorf("--product %q: the name has to say SIMULATED, so that nobody takes it for a GPU", o.product)
	case strings.ContainsAny(o.product+o.driver, "'\"\\,$`\n"):
		return fmt.Errorf("--product %q, --driver %q: no quotes, commas, backslashes or $", o.product, o.driver)
	}
	return nil
}

// inventory names the GPUs of a node: the same at every start, no two alike in a cluster.
func inventory(node string, count int) []device {
	devices := make([]device, count)
	for i := range devices {
		sum := sha256.Sum256([]byte(node + "/" + strconv.Itoa(i)))
		devices[i] = device{
			index: i,
			uuid:  fmt.Sprintf("GPU-sim-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
			busID: fmt.Sprintf("00000000:%02X:00.0", 0x10+i),
		}
	}
	return devices
}

// sick reads the switch: a file in the directory named after a UUID or an index makes that device unhealthy.
func sick(directory string, devices []device) (map[string]bool, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, entry := range entries {
		position := slices.IndexFunc(devices, func(d device) bool {
			return entry.Name() == d.uuid || entry.Name() == strconv.Itoa(d.index)
		})
		if position >= 0 {
			found[devices[position].uuid] = true
		}
	}
	return found, nil
}
