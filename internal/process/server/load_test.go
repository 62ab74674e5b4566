package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"golang.org/x/sync/errgroup"
)

// TestChangesOfTheFleetAtOnceDoNotStopTheAPI: a hundred of them are each made or told to come again, and others are
// answered meanwhile.
func TestChangesOfTheFleetAtOnceDoNotStopTheAPI(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "", nil)
	var g errgroup.Group
	for i := range 100 {
		g.Go(func() error {
			got, err := s.call("PUT", fmt.Sprintf("/v1/engines/e%d", i), "",
				fmt.Sprintf(`{"url":"http://127.0.0.1:%d"}`, 20000+i))
			if err != nil || got.status != http.StatusOK && got.status != http.StatusTooManyRequests {
				return fmt.Errorf("engine %d: status %d, %v: %s", i, got.status, err, got.body)
			}
			return nil
		})
	}
	for range 20 {
		s.want(http.StatusOK, "GET", "/v1/runs", "", "")
		s.want(http.StatusOK, "GET", "/readyz", "", "")
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestReadinessIsBoundedWhenRedisHangs: a probe's own bound of 3 s holds, and not the socket's of a minute, while
// Redis keeps the connection and says nothing.
func TestReadinessIsBoundedWhenRedisHangs(t *testing.T) {
	t.Parallel()
	link := newHangingLink(t, miniredis.RunT(t).Addr())
	s := serveAPI(t, fmt.Sprintf("redis: {url: 'redis://%s/0?read_timeout=60s'}\n", link.address), nil)
	s.want(http.StatusOK, "GET", "/readyz", "", "")
	link.hang.Store(true)
	began := time.Now()
	s.want(http.StatusServiceUnavailable, "GET", "/readyz", "", "")
	took := time.Since(began)
	link.hang.Store(false)
	if took > 40*time.Second {
		t.Errorf("a probe took %v, though it is bounded at 3 s", took)
	}
}

// hangingLink passes a connection on, and holds back what its target says while it hangs.
type hangingLink struct {
	address string
	hang    atomic.Bool
}

func newHangingLink(t *testing.T, target string) *hangingLink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h := &hangingLink{address: l.Addr().String()}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() {
				defer far.Close()
				_, _ = io.Copy(far, near) // Ends with either side.
			}()
			go func() {
				defer near.Close()
				_, _ = io.Copy(&holding{near, h}, far)
			}()
		}
	}()
	return h
}

// holding writes once the link does not hang.
type holding struct {
	net.Conn
	link *hangingLink
}

func (w *holding) Write(b []byte) (int, error) {
	for w.link.hang.Load() {
		time.Sleep(10 * time.Millisecond)
	}
	return w.Conn.Write(b)
}
