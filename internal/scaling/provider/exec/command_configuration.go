package exec

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider/commandline"
)

// Config is the operator's settings of the commands. Command lines are split into words as a shell splits them.
type Config struct {
	Start string   `json:"start"`
	Stop  string   `json:"stop"`
	List  string   `json:"list"`
	Env   []string `json:"env,omitempty"`
	Dir   string   `json:"dir,omitempty"`
	// Timeout is how long one command may take; it is then killed, with what it has started.
	Timeout rollout.Duration `json:"timeout,omitempty"`
	// MaxInFlight is the default for engines whose list entry has none.
	MaxInFlight int `json:"max_in_flight,omitempty"`
	// Deployment is the name passed to the commands; empty: the caller's name for itself.
	Deployment string `json:"deployment,omitempty"`
}

// DefaultTimeout is how long a command may take where a Config says nothing.
const DefaultTimeout = 2 * time.Minute

// Keys is a row for each key of Config, below the section that it is in.
var Keys = settings.ReadTable(keysFile)

//go:embed exec_keys.json
var keysFile []byte

// Validate reports all faults together.
func (c Config) Validate() error { return c.Faults().Err() }

// Faults lists, by key, the settings with which commands cannot run.
func (c Config) Faults() settings.Faults {
	var faults settings.Faults
	check := faults.Require
	for _, command := range []struct{ key, text string }{{"start", c.Start}, {"stop", c.Stop}, {"list", c.List}} {
		words, err := commandline.Split(command.text)
		check(err == nil, command.key, "%v", err)
		check(err != nil || len(words) > 0, command.key, "must not be empty: a command, such as "+
			"/etc/millrace/providers/slurm.sh %s", command.key)
	}
	for i, assignment := range c.Env {
		name, _, ok := strings.Cut(assignment, "=")
		check(ok && name != "" && !strings.Contains(name, " "), fmt.Sprintf("env[%d]", i), "%q: want NAME=value", assignment)
	}
	check(c.Dir == "" || filepath.IsAbs(c.Dir), "dir", "%q is not an absolute path", c.Dir)
	check(c.Timeout >= 0 && c.Timeout.Std() <= time.Hour, "timeout", "%v: want 0s to 1h", c.Timeout)
	check(c.MaxInFlight >= 0 && c.MaxInFlight <= 100_000, "max_in_flight", "%d: want 0 to 100000", c.MaxInFlight)
	check(c.Deployment == "" || deploymentName(c.Deployment) == c.Deployment, "deployment",
		"%q: use up to 63 of letters, digits, '.', '_' and '-', starting and ending with a letter or digit", c.Deployment)
	return faults
}
