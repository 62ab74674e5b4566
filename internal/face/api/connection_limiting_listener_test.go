package api

import (
	"net"
	"testing"
)

// An address with as many guests as it may have makes room with one of its own: strangers cost nobody a connection.
func TestAnAddressMakesRoomWithItsOwn(t *testing.T) {
	t.Parallel()
	c := newConnections(nil, Limits{Connections: 100, ConnectionsPerAddress: 2}, func(string) {})
	var all []*connection
	for _, address := range []string{"somebody", "stranger", "stranger", "stranger"} {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		one := &connection{Conn: ours, owner: c, address: address}
		if !c.admit(one) {
			t.Errorf("%s is not let in", address)
		}
		all = append(all, one)
	}
	for i, gone := range []bool{false, true, false, false} {
		if all[i].gone != gone {
			t.Errorf("connection %d, of %s, is gone: %v, want %v", i, all[i].address, all[i].gone, gone)
		}
	}
}
