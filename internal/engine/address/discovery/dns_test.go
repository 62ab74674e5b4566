package discovery

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
)

// nameServer answers every question for an address on a UDP socket of this machine, as RFC 1035 wants it.
type nameServer struct {
	mu     sync.Mutex
	addrs  []netip.Addr
	refuse bool // the name does not exist
}

func (n *nameServer) set(refuse bool, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse, n.addrs = refuse, nil
	for _, a := range addrs {
		n.addrs = append(n.addrs, netip.MustParseAddr(a))
	}
}

// resolver starts the server and returns a resolver that asks no other.
func (n *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			size, from, err := socket.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			_, _ = socket.WriteTo(n.answer(buf[:size]), from) // a lost answer is asked for again
		}
	}()
	t.Cleanup(func() {
		_ = socket.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

// The parts of a DNS message that are used here.
const (
	headerBytes = 12
	typeA       = 1
	typeAAAA    = 28
	noSuchName  = 3
)

// answer repeats the question and adds the addresses of its type.
func (n *nameServer) answer(query []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	end := headerBytes
	for query[end] != 0 { // labels, up to the root's
		end += int(query[end]) + 1
	}
	end += 1 + 4 // type and class
	asked := binary.BigEndian.Uint16(query[end-4:])
	var records []byte
	count := uint16(0)
	for _, a := range n.addrs {
		if n.refuse || a.Is4() != (asked == typeA) || a.Is6() != (asked == typeAAAA) {
			continue
		}
		data := a.AsSlice()
		records = append(records, 0xc0, headerBytes) // the name stands in the question
		records = binary.BigEndian.AppendUint16(records, asked)
		records = binary.BigEndian.AppendUint16(records, 1) // internet
		records = binary.BigEndian.AppendUint32(records, 0) // not to be kept
		records = binary.BigEndian.AppendUint16(records, uint16(len(data)))
		records = append(records, data...)
		count++
	}
	reply := slices.Clone(query[:end])
	flags := uint16(1<<15 | 1<<10 | 1<<8 | 1<<7) // an answer with authority, recursion wanted and had
	if n.refuse {
		flags |= noSuchName
	}
	binary.BigEndian.PutUint16(reply[2:], flags)
	binary.BigEndian.PutUint16(reply[6:], count)
	binary.BigEndian.PutUint16(reply[8:], 0)
	binary.BigEndian.PutUint16(reply[10:], 0)
	return append(reply, records...)
}

func TestFollowADNSName(t *testing.T) {
	t.Parallel()
	var names nameServer
	source, err := parseSource("dns:vllm.millrace.example.:8000", names.resolver(t))
	if err != nil {
		t.Fatal(err)
	}
	registry := newRegistry(t)
	follower := Follower{Source: source, Registry: registry, Every: time.Minute}
	var missing *net.DNSError
	for _, step := range []struct {
		name   string
		refuse bool
		addrs  []string
		want   string // members that stay
		leaves string
		fails  bool
	}{
		{"two engines", false, []string{"10.0.0.6", "10.0.0.5"}, "http://10.0.0.5:8000 http://10.0.0.6:8000", "", false},
		{"in another order", false, []string{"10.0.0.5", "10.0.0.6"}, "http://10.0.0.5:8000 http://10.0.0.6:8000", "", false},
		{"one moved to IPv6", false, []string{"10.0.0.5", "fd00::7"}, "http://10.0.0.5:8000 http://[fd00::7]:8000",
			"http://10.0.0.6:8000", false},
		{"the name is gone", true, nil, "http://10.0.0.5:8000 http://[fd00::7]:8000", "http://10.0.0.6:8000", true},
		{"the name has no address", false, nil, "http://10.0.0.5:8000 http://[fd00::7]:8000", "http://10.0.0.6:8000", true},
		{"back again", false, []string{"10.0.0.6"}, "http://10.0.0.6:8000", "http://10.0.0.5:8000 http://[fd00::7]:8000",
			false},
	} {
		names.set(step.refuse, step.addrs...)
		err := follower.follow(t.Context())
		if (err != nil) != step.fails || step.fails && !errors.As(err, &missing) {
			t.Fatalf("%s: %v", step.name, err)
		}
		stay, leave := listMembers(t, registry, func(m fleet.Member) string { return m.URL })
		if stay != step.want || leave != step.leaves {
			t.Errorf("%s: members %q, leaving %q; want %q and %q", step.name, stay, leave, step.want, step.leaves)
		}
	}
}
