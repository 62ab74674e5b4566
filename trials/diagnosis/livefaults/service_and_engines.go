package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/kit/freeport"
)

// site is one service under way.
type site struct {
	millrace string
	server   string
	dir      string
	log      io.Writer

	mu      sync.Mutex
	engines []*simulated
}

// simulated is one simulated engine.
type simulated struct {
	port  int
	child *exec.Cmd
}

func (e *simulated) url() string { return fmt.Sprintf("http://127.0.0.1:%d", e.port) }

// id is what the fleet calls it.
func (e *simulated) id() string { return fmt.Sprintf("127.0.0.1-%d", e.port) }

const specText = `name: live
model: Qwen/Qwen2.5-7B-Instruct
steps: %d
environment: {kind: diplomacy, horizon_years: 1, train: all}
group: {samples: 3}
buffer: %s
sampling: {temperature: 0.8, max_tokens: 100}
adapters: {rank: 8, path_prefix: %s}
`

// startEngine starts an engine on a port; 0: on a free one.
func (s *site) startEngine(port int, args ...string) (*simulated, error) {
	if port == 0 {
		address, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			return nil, err
		}
		port = tcp.Port
	}
	e := &simulated{port: port}
	args = append([]string{"engine", "simulate", "--faults", "--port", fmt.Sprint(port)}, args...)
	e.child = exec.Command(s.millrace, args...)
	e.child.Stdout, e.child.Stderr = s.log, s.log
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines = append(s.engines, e)
	return e, e.child.Start()
}

func (s *site) stop() {
	for i := range s.engines {
		s.kill(i)
	}
}

// kill ends an engine at once.
func (s *site) kill(i int) {
	if e := s.engines[i]; e.child.Process != nil {
		_ = e.child.Process.Kill() // it may be gone already
		_ = e.child.Wait()
	}
}

// fault has an engine misbehave.
func (s *site) fault(i int, path, body string) {
	resp, err := http.Post(s.engines[i].url()+path, "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Fprintln(s.log, "fault:", err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		fmt.Fprintln(s.log, "fault:", path, resp.Status)
	}
}

// command runs the CLI against the server.
func (s *site) command(args ...string) error {
	c := exec.Command(s.millrace, append(args, "--server", s.server)...)
	c.Stdout, c.Stderr = s.log, s.log
	if err := c.Run(); err != nil {
		return fmt.Errorf("millrace %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// operator runs a command as an operator would, in the background.
func (s *site) operator(args ...string) {
	go func() {
		if err := s.command(args...); err != nil {
			fmt.Fprintln(s.log, err)
		}
	}()
}
