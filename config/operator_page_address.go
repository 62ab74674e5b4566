package config

import (
	"net"
)

// PageAddress is where people reach a server's operator's page: as it is configured, or where the server listens.
// Empty: not known.
func (s Service) PageAddress() string {
	host, _, err := net.SplitHostPort(s.Listen)
	ip := net.ParseIP(host)
	switch {
	case s.PageURL != "":
		return s.PageURL
	case err != nil || host == "" || ip.IsUnspecified():
		return ""
	case s.TLS.Enabled():
		return "https://" + s.Listen
	}
	return "http://" + s.Listen
}
