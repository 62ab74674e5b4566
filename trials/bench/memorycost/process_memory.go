package memorycost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Process is the memory of a process, in bytes.
type Process struct {
	Resident   int64 `json:"resident_bytes"` // as the kernel counts it, before the collection that follows
	Heap       int64 `json:"heap_bytes"`     // in use after a garbage collection
	Stacks     int64 `json:"stack_bytes"`
	Goroutines int64 `json:"goroutines"`
}

func (p Process) minus(of Process) Process {
	return Process{p.Resident - of.Resident, p.Heap - of.Heap, p.Stacks - of.Stacks, p.Goroutines - of.Goroutines}
}

// processMemory looks at a process whose profiles are served at an address.
func processMemory(ctx context.Context, pid int, profiles string) (p Process, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, fmt.Errorf("memory of process %d (this needs Linux): %w", pid, err)
	}
	if p.Resident, err = residentOf(string(status)); err != nil {
		return p, err
	}
	heap, err := fetch(ctx, "http://"+profiles+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return p, err
	}
	if p.Heap, err = numberAfter(heap, "# HeapAlloc = "); err != nil {
		return p, err
	}
	if p.Stacks, err = numberAfter(heap, "# Stack = "); err != nil {
		return p, err
	}
	goroutines, err := fetch(ctx, "http://"+profiles+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		return p, err
	}
	p.Goroutines, err = numberAfter(goroutines, "goroutine profile: total ")
	return p, err
}

// residentOf reads VmRSS, which is in kB.
func residentOf(status string) (int64, error) {
	kb, err := numberAfter(strings.ReplaceAll(strings.ReplaceAll(status, "\t", ""), " ", ""), "VmRSS:")
	return kb << 10, err
}

// numberAfter is the number that follows the first place where a text says something.
func numberAfter(text, what string) (int64, error) {
	_, rest, found := strings.Cut(text, what)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !found || end < 0 {
		return 0, fmt.Errorf("no number after %q", what)
	}
	return strconv.ParseInt(rest[:end], 10, 64)
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("profile: %d %.200s", resp.StatusCode, body)
	}
	return string(body), err
}
