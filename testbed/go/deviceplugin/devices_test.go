package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUUIDsAreStableAndTheTestbedDerivesTheSame(t *testing.T) {
	// testbed/gpu.py and its test hold the same value.
	if got := inventory("gpu-1", 1)[0].uuid; got != "GPU-sim-077b1e6a-a40c-24d1-4ce0-88597861c526" {
		t.Fatal(got)
	}
}

func TestNoTwoGPUsOfAClusterAreAlike(t *testing.T) {
	seen := map[string]bool{}
	for _, node := range []string{"gpu-1", "gpu-2", "gpu-11"} {
		for _, d := range inventory(node, maxGPUs) {
			if seen[d.uuid] || len(d.uuid) > 63 {
				t.Fatal(node, d)
			}
			seen[d.uuid] = true
		}
	}
}

func TestAFileNamedAfterUUIDOrIndexMakesADeviceSick(t *testing.T) {
	directory := t.TempDir()
	devices := inventory("gpu-1", 4)
	for _, name := range []string{devices[1].uuid, "3", "17", "GPU-of-nobody"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := sick(directory, devices)
	if err != nil || len(found) != 2 || !found[devices[1].uuid] || !found[devices[3].uuid] {
		t.Fatal(found, err)
	}
}

func TestAProductThatDoesNotSaySimulatedIsRefused(t *testing.T) {
	common := []string{"--root-dir=/r", "--state-dir=/s", "--node=n"}
	for _, arguments := range [][]string{{"--product=NVIDIA A100"}, {"--gpus=0"}, {"--product=SIMULATED 'x'"}, {"--root-dir="}} {
		if _, err := parse(append(common[:3:3], arguments...)); err == nil {
			t.Fatal(arguments, "was accepted")
		}
	}
	if _, err := parse(common); err != nil {
		t.Fatal(err)
	}
}
