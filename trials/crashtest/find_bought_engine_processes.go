package crashtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// boughtIDVariable is what the harness has engines that are bought say of themselves: their id.
const boughtIDVariable = "MILLRACE_CHAOS_ENGINE"

// running is the engines that were bought and run, and keepers the processes that keep them.
func (b *boughtEngines) running() (engines, keepers []boughtProcess) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		words := strings.Split(string(text), "\x00")
		if len(words) < 5 || words[1] != "engine" {
			continue
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		p := boughtProcess{pid: pid, began: began(dir)}
		switch port, err := strconv.Atoi(words[4]); {
		case words[2] == "keep" && strings.HasPrefix(words[3], b.dir+"/"):
			p.id = filepath.Base(words[3])
			keepers = append(keepers, p)
		case words[2] == "simulate" && err == nil && port >= b.first && port < b.first+boughtPorts:
			p.id, p.port = variable(dir, boughtIDVariable), port
			if p.id != "" && p.began != "" { // or it has ended meanwhile
				engines = append(engines, p)
			}
		}
	}
	return engines, keepers
}

// began is when a process began, in ticks since the host did; "": it has ended, or only waits to be noticed.
func began(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
	const state, start = 0, 19
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return ""
	}
	return fields[start]
}

// variable is what a process was started with under a name.
func variable(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	for assignment := range strings.SplitSeq(string(text), "\x00") {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return value
		}
	}
	return ""
}
