package address

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/millrace/millrace/internal/rollout"
)

// Rules say which addresses engines may have. An address in deny is refused. So is a reserved one, such as a link-local
// address or that of a cloud's metadata service, unless allow names it or a part of its range. When allow has entries,
// any other address must match one of them. The zero Rules refuse reserved addresses only.
type Rules struct {
	allow, deny []pattern
}

// reserved are ranges that no engine is in: these addresses stand for a cloud, a link or a group of hosts.
var reserved = parsePrefixes(
	"0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", // this host, link-local, multicast, reserved
	"::/128", "fe80::/10", "ff00::/8", // unspecified, link-local, multicast
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", // metadata: Alibaba, Azure, Oracle
	"fd00:ec2::/32", "fd20:ce::254/128", // metadata over IPv6: Amazon, Google
)

// metadataHosts are the names of such services. A resolver may give them any address.
var metadataHosts = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	"metadata.azure.internal", "metadata.tencentyun.com", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
	"kubernetes.default.svc.cluster.local",
}

func parsePrefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Check refuses a URL that may not be an engine's. It judges a host's name; Dial judges what the name resolves to.
func (r *Rules) Check(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return refuse(text, "it is no URL")
	}
	host := hostOf(u)
	if strings.ContainsFunc(host, func(c rune) bool { return c > '~' }) {
		return refuse(text, "its host has letters that look like others; write it in ASCII")
	}
	if clean := strings.TrimRight(u.Path, "/"); clean != "" && path.Clean(clean) != clean {
		return refuse(text, "its path leads back or in circles")
	}
	if anyMatches(r.deny, u) {
		return refuse(text, "engine_urls.deny names it")
	}
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	if isIP && r.isReserved(ip) {
		hint := ""
		if ip.IsUnspecified() {
			hint = "; 127.0.0.1 is this machine"
		}
		return refuse(text, "no engine has a link-local, metadata, multicast or unspecified address "+
			"unless engine_urls.allow names it"+hint)
	}
	named := func(p pattern) bool { return p.host == host && !p.domain }
	if slices.Contains(metadataHosts, host) && !slices.ContainsFunc(r.allow, named) {
		return refuse(text, "it is the name of a metadata service or of Kubernetes' API")
	}
	if len(r.allow) == 0 || anyMatches(r.allow, u) || !isIP && r.hasRange() {
		return nil
	}
	return refuse(text, "engine_urls.allow does not name it")
}

func refuse(url, why string) error {
	return rollout.Refuse(rollout.Invalid,
		"engine address %s: %s; engine_urls of the service's configuration says which may be engines", quoted(url), why)
}

// quoted is a foreign text for an error: short, and without control characters.
func quoted(text string) string { return fmt.Sprintf("%.100q", text) }

// errDenied is why a connection is not made.
var errDenied = errors.New("the address is not one that engine_urls allows")

// Dial is a net.Dialer's Control for connections to a URL: it refuses the address that a name has been resolved to,
// unless it is one that an engine at this URL may have.
func (r *Rules) Dial(text string) (func(network, address string, c syscall.RawConn) error, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("engine address: %w", err)
	}
	byURL := len(r.allow) == 0 || anyMatches(r.allow, u)
	return func(_, address string, _ syscall.RawConn) error {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return err
		}
		denied := anyContains(r.deny, ip, func(p *pattern) bool { return p.port == "" || p.port == port })
		if denied || r.isReserved(ip) || !byURL && !anyContains(r.allow, ip, (*pattern).isRange) {
			return fmt.Errorf("%s: %w", ip, errDenied)
		}
		return nil
	}, nil
}

// isReserved reports whether this address, or the IPv4 address within it, is reserved, and allow has no entry for just
// this part of the reserved range.
func (r *Rules) isReserved(ip netip.Addr) bool {
	return slices.ContainsFunc(withEmbedded(ip), func(ip netip.Addr) bool {
		in := func(p netip.Prefix) bool { return p.Contains(ip) }
		at := slices.IndexFunc(reserved, in)
		if at < 0 {
			return false
		}
		return !slices.ContainsFunc(r.allow, func(p pattern) bool {
			return p.contains(ip) && p.ips.Bits() >= reserved[at].Bits()
		})
	})
}

// withEmbedded is an address and the IPv4 address within it, where a translator or a tunnel would find one.
func withEmbedded(ip netip.Addr) []netip.Addr {
	ip = ip.WithZone("").Unmap()
	all := []netip.Addr{ip}
	if !ip.Is6() {
		return all
	}
	b := ip.As16()
	four := func(at int) { all = append(all, netip.AddrFrom4([4]byte(b[at:at+4]))) }
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip),
		netip.MustParsePrefix("::/96").Contains(ip) && !ip.IsLoopback():
		four(12)
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		four(2)
	}
	return all
}

func (r *Rules) hasRange() bool {
	return slices.ContainsFunc(r.allow, func(p pattern) bool { return p.isRange() })
}

func anyMatches(list []pattern, u *url.URL) bool {
	return slices.ContainsFunc(list, func(p pattern) bool { return p.matches(u) })
}

// anyContains reports whether a pattern for which counts is true contains an address.
func anyContains(list []pattern, ip netip.Addr, counts func(*pattern) bool) bool {
	return slices.ContainsFunc(withEmbedded(ip), func(ip netip.Addr) bool {
		return slices.ContainsFunc(list, func(p pattern) bool { return p.contains(ip) && counts(&p) })
	})
}
