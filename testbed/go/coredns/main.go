// Command coredns is CoreDNS with the few plugins that the testbed's cluster.local zone needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func init() {
	// Order of execution in the chain, as in CoreDNS' own plugin.cfg.
	dnsserver.Directives = []string{"bind", "health", "errors", "cache", "kubernetes"}
}

func main() {
	coremain.Run()
}
