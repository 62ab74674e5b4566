package config

import (
	"net"
	"strings"
)

// PageAddress is where people reach the operator's page: as it is configured, or where this server listens. Empty: not
// known.
func (s Service) PageAddress() string {
	host, _, err := net.SplitHostPort(s.Listen)
	ip := net.ParseIP(host)
	switch {
	case s.PageURL != "":
		return strings.TrimSuffix(s.PageURL, "/")
	case s.Process != ServerProcess || err != nil || host == "" || ip.IsUnspecified():
		return ""
	case s.TLS.Enabled():
		return "https://" + s.Listen
	}
	return "http://" + s.Listen
}

// ServerProcess is Service.Process of a server.
const ServerProcess = "millrace-server"
