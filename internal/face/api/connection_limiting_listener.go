package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// connections bounds the connections that are open. One that has not shown a token yet is a guest: when there is no
// room, the guest that came first makes room for the next one, so that strangers who open connections and keep them, or
// hold back the body of a request, cannot keep anybody out. A connection with a request that is there as a whole, or
// that has shown a token, is never closed for another.
type connections struct {
	net.Listener
	refused func(reason string)

	mu     sync.Mutex
	bounds Limits
	open   int
	guests list.List      // of *connection, oldest first
	of     map[string]int // guests by address
}

func newConnections(l net.Listener, limits Limits, refused func(reason string)) *connections {
	c := &connections{Listener: l, refused: refused, of: map[string]int{}}
	c.resize(limits)
	return c
}

// resize holds for connections that come from now on.
func (c *connections) resize(limits Limits) {
	limits.Connections = boundedBy(limits.Connections)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bounds = limits
}

// reservedFiles is how many file descriptors are left for Redis, Temporal, Axiom and files.
const reservedFiles = 64

// boundedBy lowers a bound of connections to what the process may open.
func boundedBy(most int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	room := max(int64(files.Cur)-reservedFiles, int64(files.Cur)/4)
	return max(1, int(min(int64(most), room)))
}

// Accept waits for the next connection that there is room for.
func (c *connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		one := &connection{Conn: conn, owner: c, address: hostOf(conn.RemoteAddr().String())}
		if c.admit(one) {
			return one, nil
		}
		_ = conn.Close() // without an answer: the client may not be able to read
		c.refused("connections")
	}
}

// admit admits a connection, if need be in the place of a guest.
func (c *connections) admit(one *connection) bool {
	c.mu.Lock()
	same := c.of[one.address]
	var leaves *connection
	switch {
	case same >= c.bounds.ConnectionsPerAddress:
		leaves = c.idleGuest(one.address)
	case c.open >= c.bounds.Connections:
		leaves = c.idleGuest("")
	}
	full := leaves == nil && (same >= c.bounds.ConnectionsPerAddress || c.open >= c.bounds.Connections)
	if leaves != nil {
		c.forget(leaves)
	}
	if !full {
		c.open++
		one.guest = c.guests.PushBack(one)
		c.of[one.address]++
	}
	c.mu.Unlock()
	if leaves != nil {
		_ = leaves.Conn.Close()
		c.refused("connections")
	}
	return !full
}

// idleGuest is the oldest guest without a request in progress, from one address or from any.
func (c *connections) idleGuest(address string) *connection {
	for e := c.guests.Front(); e != nil; e = e.Next() {
		g := e.Value.(*connection)
		if !g.busy && (address == "" || g.address == address) {
			return g
		}
	}
	return nil
}

// forget counts a connection out, once.
func (c *connections) forget(one *connection) {
	if one.gone {
		return
	}
	one.gone = true
	c.open--
	c.noGuest(one)
}

// noGuest takes a connection off the list of those that may have to leave.
func (c *connections) noGuest(one *connection) {
	if one.guest == nil {
		return
	}
	c.guests.Remove(one.guest)
	one.guest = nil
	if c.of[one.address]--; c.of[one.address] == 0 {
		delete(c.of, one.address)
	}
}

// connection is one that is counted.
type connection struct {
	net.Conn
	owner   *connections
	address string

	// guarded by owner.mu
	guest *list.Element // nil once it has shown a token
	busy  bool
	gone  bool
}

// Close closes the connection and counts it out.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	c.owner.forget(c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// begin marks a request in progress.
func (c *connection) begin() (end func()) {
	set := func(busy bool) {
		c.owner.mu.Lock()
		defer c.owner.mu.Unlock()
		c.busy = busy
	}
	set(true)
	return func() { set(false) }
}

// welcome makes a guest one that stays: it has shown that it may be here.
func (c *connection) welcome() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.owner.noGuest(c)
}

type connectionKey struct{}

// withConnection lets requests find the connection that they came on.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	if one, ok := c.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, one)
	}
	return ctx
}

// connectionOf is nil where nothing is counted, as in tests of the handler alone.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// busy marks the connection of a request as one that is worked for, once the request is there as a whole: who only
// holds a body back is not worked for, and may have to leave for the next guest.
func busy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if connection := connectionOf(r.Context()); connection != nil {
			defer connection.begin()()
		}
		next.ServeHTTP(w, r)
	})
}
