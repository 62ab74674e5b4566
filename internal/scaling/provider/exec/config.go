package exec

import (
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
var Keys = settings.Table{Keys: []settings.Key{
	{Path: "start", Example: "/etc/millrace/providers/slurm.sh start",
		Doc: "the command that starts an engine, its words split as in a shell, and no more than that; what it is told " +
			"and must answer is in docs/providers.md"},
	{Path: "stop", Example: "/etc/millrace/providers/slurm.sh stop",
		Doc: "the command that ends one, whatever its state; one that is not there is no error"},
	{Path: "list", Example: "/etc/millrace/providers/slurm.sh list",
		Doc: "the command that lists this deployment's engines, those that ended by themselves included, as JSON"},
	{Path: "env", Example: "[SLURM_PARTITION=gpu]", Doc: "what the commands have in their environment besides the " +
		"worker's, as NAME=value; the worker's own secrets they do not get"},
	{Path: "dir", Example: "/etc/millrace/providers",
		Doc: "where the commands are run; if not given, where the worker was"},
	{Path: "timeout", Min: settings.Bound(0), Max: settings.Bound(3600), Example: "2m",
		Doc: "how long one command may take; it is then killed. 0s: 2m"},
	{Path: "max_in_flight", Min: settings.Bound(0), Max: settings.Bound(100_000),
		Doc: "requests at a time at one engine, over all workers, unless its list says otherwise; 0 leaves it to the " +
			"service"},
	{Path: "deployment", Example: "rl-team-a",
		Doc: "the name under which the commands keep this deployment's engines apart from others'; if not given, it is " +
			"made of redis.prefix and the Redis"},
}}

// Validate reports all faults together.
func (c Config) Validate() error { return c.Faults().Err() }

// Faults lists, by key, the settings with which commands cannot run.
func (c Config) Faults() settings.Faults {
	var faults settings.Faults
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			faults.Add(key, format, args...)
		}
	}
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
