package crashtest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the test hangs up
			}()
		}
	}()
	return l.Addr().String()
}

func openLink(t *testing.T) *link {
	t.Helper()
	k, err := newLink(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

func dial(t *testing.T, k *link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", k.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func exchangeLine(c net.Conn) error {
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	_, err := bufio.NewReader(c).ReadString('\n')
	return err
}

func TestCutLinkClosesAndRefusesUntilItIsRestored(t *testing.T) {
	t.Parallel()
	k := openLink(t)
	c := dial(t, k)
	if err := exchangeLine(c); err != nil {
		t.Fatal(err)
	}
	k.sever()
	if err := exchangeLine(c); err == nil {
		t.Error("an old connection survived the cut")
	}
	if err := exchangeLine(dial(t, k)); err == nil {
		t.Error("a new connection got through the cut")
	}
	k.restore()
	if err := exchangeLine(dial(t, k)); err != nil {
		t.Errorf("after restoring: %v", err)
	}
}

func TestHangingLinkKeepsConnectionsAndBytes(t *testing.T) {
	t.Parallel()
	k := openLink(t)
	c := dial(t, k)
	if err := exchangeLine(c); err != nil {
		t.Fatal(err)
	}
	k.hang()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if err := exchangeLine(c); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("got %v while the link hangs, want silence", err)
	}
	k.restore()
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Errorf("what was sent while the link hung did not arrive: %v", err)
	}
}
