package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout"
)

// call is one request on its way through the server.
type call struct {
	id      string
	address string              // where it comes from
	grant   access.Grant        // of who sent it
	code    rollout.RefusalCode // of the problem it was answered with

	// of what it changes
	run    rollout.RunName
	engine rollout.EngineID
	fleet  bool              // how the whole fleet is scaled
	after  map[string]string // what its handler says of it afterwards; nil: look
}

type callKey struct{}

// callOf is the call that ctx belongs to; an empty one outside of the middleware.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// requestID is the id of the request that ctx belongs to.
func requestID(ctx context.Context) string { return callOf(ctx).id }

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
	if err != nil {
		return false
	}
	for _, p := range prefixes {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}
