package address

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// pattern is one entry of a list: a range of addresses, a host, or the beginning of a URL.
type pattern struct {
	ips    netip.Prefix // valid: a range or a single address
	scheme string       // empty: any
	host   string       // lower case; of *.domain, without the star
	domain bool         // host and all below it, but not host itself
	port   string       // empty: any
	path   string       // without a trailing slash
}

// parsePattern reads 10.0.0.0/8, 10.0.0.7, gpu7.internal, *.gpu.internal or http://gpu7.internal:8000/team.
func parsePattern(text string) (pattern, error) {
	p := pattern{}
	if ips, err := netip.ParsePrefix(text); err == nil {
		p.ips = netip.PrefixFrom(ips.Addr().Unmap(), ips.Bits()).Masked()
		if ips.Addr().Is4In6() {
			return pattern{}, fmt.Errorf("%q: write it as a range of IPv4 addresses", text)
		}
		return p, nil
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		p.ips = single(ip)
		return p, nil
	}
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		if scheme != "http" && scheme != "https" {
			return pattern{}, fmt.Errorf("%q: a URL begins with http:// or https://", text)
		}
		p.scheme, rest = scheme, after
	}
	if after, ok := strings.CutPrefix(rest, "*."); ok {
		p.domain, rest = true, after
	}
	u, err := url.Parse("http://" + rest)
	switch {
	case err != nil || u.Hostname() == "" || strings.Contains(u.Host, "*"):
		return pattern{}, fmt.Errorf("%q: want 10.0.0.0/8, gpu7.internal, *.gpu.internal or http://gpu7.internal:8000", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return pattern{}, fmt.Errorf("%q: only scheme, host, port and path belong into it", u.Redacted())
	}
	p.host, p.port, p.path = hostOf(u), u.Port(), strings.TrimRight(u.Path, "/")
	if ip, err := netip.ParseAddr(p.host); err == nil {
		if p.domain {
			return pattern{}, errors.New("an address has no domain below it")
		}
		p.ips = single(ip)
	}
	return p, nil
}

func single(ip netip.Addr) netip.Prefix {
	ip = ip.WithZone("").Unmap()
	return netip.PrefixFrom(ip, ip.BitLen())
}

// hostOf is the host as it is compared: in lower case, without a root's dot and without brackets.
func hostOf(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

// matches reports whether the pattern matches a URL. A range matches only if the URL's host is an address.
func (p *pattern) matches(u *url.URL) bool {
	host := hostOf(u)
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && !p.contains(ip), err != nil && p.ips.IsValid():
		return false
	case err != nil && p.domain && !strings.HasSuffix(host, "."+p.host), err != nil && !p.domain && host != p.host:
		return false
	case p.scheme != "" && p.scheme != u.Scheme, p.port != "" && p.port != portOf(u):
		return false
	}
	rest, ok := strings.CutPrefix(u.Path, p.path)
	return ok && (rest == "" || rest[0] == '/')
}

// contains reports whether an address is in the pattern's range.
func (p *pattern) contains(ip netip.Addr) bool {
	return p.ips.IsValid() && p.ips.Contains(ip.WithZone("").Unmap())
}

// isRange reports whether the pattern is of addresses alone, whatever the URL.
func (p *pattern) isRange() bool { return p.ips.IsValid() && p.host == "" }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
