// Package freeport finds ports where nothing listens at the moment, and which the kernel gives to nobody by itself: a
// port of the range from which it serves outgoing connections and listeners on port 0 may be taken before the program
// for which it was found has started. Start reading at Address.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// Ports below first are those of well-known services and their neighbours.
const first, last = 16_384, 65_535

// stride is the distance of successive ports, so that callers counting on from one do not meet.
const stride = 7919

// tries is how many ports are looked at; where services have taken half of all, one in 2^32 searches finds none.
const tries = 32

// next counts the ports looked at, from anywhere: one process asks for each port once in thousands of times, and two
// processes hardly ever for the same one at the same time.
var next atomic.Uint32

func init() { next.Store(rand.Uint32()) }

// Address is a loopback address with a free port.
func Address() (string, error) { return On("127.0.0.1") }

// Port is a free port of loopback.
func Port() (int, error) {
	at, err := find("127.0.0.1")
	if err != nil {
		return 0, err
	}
	return at.Port, nil
}

// On is an address of a host of this machine's, with a port that is free there; of all its hosts, where none is named.
func On(host string) (string, error) {
	at, err := find(host)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

func find(host string) (at *net.TCPAddr, err error) {
	low, high := ephemeral(os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"))
	for range tries {
		var l net.Listener
		l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(choose(low, high, next.Add(1)))))
		if err == nil {
			return l.Addr().(*net.TCPAddr), l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

// choose is the nth port, counted round and round, outside of the kernel's range, low to high; 0, the kernel's own
// choice, where that range leaves hardly any.
func choose(low, high int, n uint32) int {
	high = max(high, first-1)
	below, above := max(low-first, 0), last-high
	const few = 1024
	if below+above < few {
		return 0
	}
	at := int(uint64(n) * stride % uint64(below+above))
	if at < below {
		return first + at
	}
	return high + 1 + at - below
}

// ephemeral reads the range of ports that the kernel gives away, both ends included: as Linux tells it, or else the one
// that IANA has set aside for it (RFC 6335, 6), which Darwin uses.
func ephemeral(told []byte, err error) (low, high int) {
	if err == nil {
		if n, _ := fmt.Sscan(string(told), &low, &high); n == 2 && low <= high {
			return low, high
		}
	}
	return 49_152, last
}
