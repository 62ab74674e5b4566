package crashtest

import (
	"fmt"
	"net"
	"sync"
)

// link is a TCP proxy on loopback between two parts, which can be cut or made to hang.
type link struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cut   bool
	gate  chan struct{} // not nil while the link hangs; closed when it is restored
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

func newLink(target string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a link to %s: %w", target, err)
	}
	k := &link{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	k.wg.Go(k.accept)
	return k, nil
}

func (k *link) address() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return // closed
		}
		k.wg.Go(func() { k.serve(conn) })
	}
}

func (k *link) serve(client net.Conn) {
	defer client.Close()
	if !k.add(client) {
		return
	}
	defer k.remove(client)
	k.wait()
	server, err := net.Dial("tcp", k.target)
	if err != nil {
		return // nobody there: the caller sees its connection closed
	}
	defer server.Close()
	if !k.add(server) {
		return
	}
	defer k.remove(server)
	var both sync.WaitGroup
	both.Go(func() { k.copy(server, client) })
	both.Go(func() { k.copy(client, server) })
	both.Wait()
}

// copy passes bytes on until either side ends, which ends both.
func (k *link) copy(dst, src net.Conn) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			k.wait()
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait blocks while the link hangs.
func (k *link) wait() {
	k.mu.Lock()
	gate := k.gate
	k.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (k *link) add(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		return false
	}
	k.conns[c] = struct{}{}
	return true
}

func (k *link) remove(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

// sever closes every connection and refuses new ones until restore.
func (k *link) sever() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	for c := range k.conns {
		c.Close()
	}
}

// hang lets nothing through until restore; connections stay open.
func (k *link) hang() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gate == nil {
		k.gate = make(chan struct{})
	}
}

func (k *link) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = false
	if k.gate != nil {
		close(k.gate)
		k.gate = nil
	}
}

func (k *link) close() {
	k.listener.Close()
	k.restore()
	k.sever()
	k.wg.Wait()
}
