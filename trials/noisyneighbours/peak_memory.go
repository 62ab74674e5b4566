package noisyneighbours

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// forgetPeak makes the kernel count a process's peak of memory again.
func forgetPeak(pid int) {
	if pid > 0 {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // not Linux: no memory is measured
	}
}

// peak is the most memory in bytes that a process has had resident; 0 where the kernel does not tell.
func peak(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
