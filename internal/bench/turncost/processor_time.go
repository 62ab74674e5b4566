package turncost

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSec is what Linux counts processor time for programs in, on every architecture that Go runs on.
const ticksPerSec = 100

// processorSec is the processor time that a process has used, in user mode and in the kernel.
func processorSec(pid int) (float64, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time of process %d (this needs Linux): %w", pid, err)
	}
	return readStat(line)
}

// readStat reads utime and stime. The name before them is in parentheses and may hold anything.
func readStat(line []byte) (float64, error) {
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	const utime, stime = 11, 12 // behind the name
	if len(fields) <= stime {
		return 0, fmt.Errorf("processor time: %d fields behind the name in %q", len(fields), line)
	}
	user, err1 := strconv.ParseInt(fields[utime], 10, 64)
	system, err2 := strconv.ParseInt(fields[stime], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("processor time: no numbers in %q", line)
	}
	return float64(user+system) / ticksPerSec, nil
}
