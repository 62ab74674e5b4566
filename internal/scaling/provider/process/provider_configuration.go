package process

import (
	"cmp"
	_ "embed"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/statefolder"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider/commandline"
)

// Keys is a row for each key of Config, below the section that it is in.
var Keys = settings.ReadTable(keysFile)

//go:embed process_keys.json
var keysFile []byte

// Config is the operator's settings for engines that are processes.
type Config struct {
	// Command starts one engine. Its words are split as a shell splits them, with quotes and backslashes, and nothing
	// else is done that a shell does. Then {port}, {host}, {id}, {gpus} and {millrace} are filled in.
	Command string `json:"command"`
	// Env is what engines have in their environment besides the worker's: NAME=value, with the same words in braces.
	Env []string `json:"env,omitempty"`
	// Dir is where engines are started; the worker's directory if empty.
	Dir string `json:"dir,omitempty"`
	// GPUs are the sets of GPUs that engines may have, such as "0,1": each engine gets one that no other has, as
	// CUDA_VISIBLE_DEVICES. Without any, only the ports bound the number of engines.
	GPUs []string `json:"gpus,omitempty"`
	// Host is the address of this host at which workers reach its engines; 127.0.0.1 if empty.
	Host string `json:"host,omitempty"`
	// Ports is the range that engines' ports are taken from, such as 18000-18999.
	Ports string `json:"ports,omitempty"`
	// MaxInFlight is how many requests an engine may have at once; 0: the fleet's default.
	MaxInFlight int `json:"max_in_flight,omitempty"`
	// Grace is how long an engine may take to end when it is told to; then it is killed.
	Grace rollout.Duration `json:"grace,omitempty"`
	// StateDir holds the engines' orders and logs. It must be this host's own; those who share it share its GPUs.
	StateDir string `json:"state_dir,omitempty"`
	// LogBytes bounds an engine's log, of which an older part of the same size is kept.
	LogBytes int64 `json:"log_bytes,omitempty"`
	// Lifeline is a file: engines end when no process holds a lock (flock) on it. Empty: they end when stopped.
	Lifeline string `json:"lifeline,omitempty"`
}

// What holds where a Config says nothing.
const (
	DefaultHost     = "127.0.0.1"
	DefaultPorts    = "18000-18999"
	DefaultGrace    = 30 * time.Second
	DefaultLogBytes = 16 << 20
)

// Validate reports all faults together.
func (c Config) Validate() error { return c.Faults().Err() }

// Faults lists, by key, the settings with which no engine can run.
func (c Config) Faults() settings.Faults {
	var faults settings.Faults
	check := faults.Require
	words, err := commandline.Split(c.Command)
	texts := append(slices.Clone(words), c.Env...)
	hasPort := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "{port}") })
	switch {
	case err != nil:
		faults.Add("command", "%v", err)
	case len(words) == 0:
		faults.Add("command", "must not be empty: what starts an engine, such as vllm serve MODEL --port {port}")
	default:
		check(hasPort, "command", "{port} is not in it, nor in env: all engines would take the same port")
	}
	for _, text := range texts {
		if unknown := commandline.Unknown(text, placeholders); unknown != "" {
			faults.Add("command", "%s cannot be filled in; what can is %s", unknown, strings.Join(placeholders, ", "))
		}
	}
	for i, assignment := range c.Env {
		name, _, ok := strings.Cut(assignment, "=")
		check(ok && name != "" && !strings.ContainsAny(name, "{} "), fmt.Sprintf("env[%d]", i), "%q: want NAME=value",
			assignment)
	}
	c.gpuFaults(&faults)
	check(c.Host == "" || net.ParseIP(c.Host) != nil || !strings.ContainsAny(c.Host, ":/@ "), "host",
		"%q: want an address or a name, without a port", c.Host)
	if _, _, err := c.portRange(); err != nil {
		faults.Add("ports", "%v", err)
	}
	check(c.MaxInFlight >= 0 && c.MaxInFlight <= 100_000, "max_in_flight", "%d: want 0 to 100000", c.MaxInFlight)
	check(c.Grace >= 0 && c.Grace.Std() <= time.Hour, "grace", "%v: want 0s to 1h", c.Grace)
	check(c.LogBytes == 0 || c.LogBytes >= leastLog && c.LogBytes <= 1<<40, "log_bytes",
		"%d: want 4KiB to 1TiB, or 0 for %s", c.LogBytes, units.Bytes(DefaultLogBytes))
	for key, path := range map[string]string{"dir": c.Dir, "state_dir": c.StateDir, "lifeline": c.Lifeline} {
		check(path == "" || filepath.IsAbs(path), key, "%q is not an absolute path", path)
	}
	return faults
}

const leastLog = 4 << 10

// gpuFaults: one GPU in two sets would be two engines'.
func (c Config) gpuFaults(faults *settings.Faults) {
	of := map[string]int{}
	for i, set := range c.GPUs {
		for gpu := range strings.SplitSeq(set, ",") {
			gpu = strings.TrimSpace(gpu)
			if first, again := of[gpu]; again {
				faults.Add(fmt.Sprintf("gpus[%d]", i), "GPU %s is in gpus[%d], too", gpu, first)
			}
			if gpu == "" || strings.ContainsAny(gpu, " =\t\n") {
				faults.Add(fmt.Sprintf("gpus[%d]", i), "%q: want GPUs as CUDA_VISIBLE_DEVICES takes them, such as 0,1", set)
			}
			of[gpu] = i
		}
	}
}

// placeholders are replaced in commands.
var placeholders = []string{"{port}", "{host}", "{id}", "{gpus}", "{millrace}"}

// portRange is the first and the last port.
func (c Config) portRange() (first, last int, err error) {
	text := cmp.Or(c.Ports, DefaultPorts)
	from, to, ok := strings.Cut(text, "-")
	first, err1 := strconv.Atoi(strings.TrimSpace(from))
	last, err2 := strconv.Atoi(strings.TrimSpace(to))
	if !ok || err1 != nil || err2 != nil || first < 1 || last > 65535 || first > last {
		return 0, 0, fmt.Errorf("%q: want a range within 1 and 65535, such as %s", c.Ports, DefaultPorts)
	}
	return first, last, nil
}

// withDefaults is c with what holds where it says nothing. Where the state is kept depends on the environment.
func (c Config) withDefaults(getenv func(string) string) Config {
	c.Host = cmp.Or(c.Host, DefaultHost)
	c.Grace = cmp.Or(c.Grace, rollout.Duration(DefaultGrace))
	c.LogBytes = cmp.Or(c.LogBytes, DefaultLogBytes)
	if c.StateDir == "" {
		c.StateDir = filepath.Join(statefolder.Of(getenv), "millrace", "engines")
	}
	return c
}
