package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress is the address that a request comes from: the connection's other end, or, behind proxies that the
// operator trusts, the nearest untrusted address in X-Forwarded-For.
func clientAddress(r *http.Request, trusted []netip.Prefix) string {
	near := hostOf(r.RemoteAddr)
	if !within(near, trusted) {
		return near
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		near = hop.Unmap().String()
		if !within(near, trusted) {
			break
		}
	}
	return near
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func within(address string, prefixes []netip.Prefix) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}
