// Package processortime reads how much processor time processes have used, as Linux counts it, and describes the
// machine. Other work on the machine makes a measurement last longer, but changes its processor time little. Start
// reading at Of.
package processortime

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// ticksPerSec is what Linux counts processor time for programs in, on every architecture that Go runs on.
const ticksPerSec = 100

// Of is the processor time in seconds that a process has used, in user mode and in the kernel.
func Of(pid int) (float64, error) {
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

// Own is that of this process; 0 where it is not told.
func Own() float64 {
	sec, _ := Of(os.Getpid())
	return sec
}

// Machine is where something was measured.
type Machine struct {
	Cores      int    `json:"cores"`
	Processor  string `json:"processor"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

// ThisMachine is the machine before a measurement.
func ThisMachine() Machine {
	return Machine{Cores: runtime.NumCPU(), Processor: Processor(), LoadBefore: Load()}
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores, %s, %s/%s, %s; load %s before and %s after", m.Cores, m.Processor, runtime.GOOS,
		runtime.GOARCH, runtime.Version(), m.LoadBefore, m.LoadAfter)
}

// Processor describes the machine's cores; empty where it is unknown.
func Processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Load is the machine's load of the last minute, including what is measured; empty where it is unknown.
func Load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}
