package web

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"testing"
)

// TestServeForABrowser serves the tests' run to a test of another module, trials/browser, which clicks through its
// pages: it prints the address, resumes the run at each line of its standard input, and ends with it.
func TestServeForABrowser(t *testing.T) {
	if os.Getenv("MILLRACE_SERVE_PAGES") == "" {
		t.Skip("trials/browser starts this test")
	}
	s := newService(12)
	s.run = cmp.Or(os.Getenv("MILLRACE_SERVE_RUN"), s.run)
	s.token = os.Getenv("MILLRACE_SERVE_TOKEN")
	fmt.Println("serving", site(t, s).URL)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		s.mu.Lock()
		s.paused = false
		s.mu.Unlock()
	}
}
