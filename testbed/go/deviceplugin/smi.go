package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"strings"
)

//go:embed nvidia-smi.sh
var template string

// writeScript puts the simulated nvidia-smi of this node where Allocate mounts it from.
func writeScript(path string, o options, devices []device) error {
	var table strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&table, "%s %d %s\n", d.uuid, d.index, d.busID)
	}
	script := []byte(strings.NewReplacer(
		"@DEVICES@", strings.TrimSpace(table.String()),
		"@PRODUCT@", o.product,
		"@DRIVER@", o.driver,
		"@MEMORY@", strconv.Itoa(o.memoryMiB),
		"@SWITCH@", switchInContainer,
	).Replace(template))
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, script) {
		return nil
	}
	// By rename: containers that run keep the file they have mounted.
	if err := os.WriteFile(path+".new", script, 0o755); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
