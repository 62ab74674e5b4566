// Package memorylimit finds how much memory this process may use. Start reading at Find.
package memorylimit

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Limit is how much memory there is for a process.
type Limit struct {
	Bytes int64
	From  string // what sets it, for people
	// Shared is set where nothing limits the process but the machine, whose memory is there for others, too.
	Shared bool
}

// Find is the least of the limits that a process has: those of its control group and the groups above, and the Go
// runtime's, goLimit (GOMEMLIMIT; math.MaxInt64 is none). Where it has none, it is the memory that the machine has to
// spare. files is the machine's, from its root. It reports false where none of this is known, as on other systems than
// Linux.
func Find(files fs.FS, goLimit int64) (Limit, bool) {
	total, _ := meminfo(files, "MemTotal")
	least := Limit{Bytes: math.MaxInt64}
	if group := controlGroup(files); group < least.Bytes && (total == 0 || group < total) {
		least = Limit{Bytes: group, From: "the limit of its control group"}
	}
	if goLimit < least.Bytes {
		least = Limit{Bytes: goLimit, From: "GOMEMLIMIT"}
	}
	if least.From != "" {
		return least, true
	}
	available, ok := meminfo(files, "MemAvailable")
	return Limit{Bytes: available, From: "the memory that the machine has available", Shared: true}, ok
}

// controlGroup is the least limit of the process's control group and those above it, of either version.
func controlGroup(files fs.FS) int64 {
	least := int64(math.MaxInt64)
	text, _ := fs.ReadFile(files, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		root, file := "sys/fs/cgroup", "memory.max"
		switch {
		case controllers == "memory":
			root, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case controllers != "":
			continue
		}
		for ; ; group = path.Dir(group) {
			if n, err := number(files, path.Join(root, group, file)); err == nil {
				least = min(least, n)
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	return least
}

// number reads a file that holds a number; "max" is none.
func number(files fs.FS, name string) (int64, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// meminfo is a line of /proc/meminfo, in bytes.
func meminfo(files fs.FS, key string) (int64, bool) {
	text, _ := fs.ReadFile(files, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name != key {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		return n << 10, err == nil
	}
	return 0, false
}
