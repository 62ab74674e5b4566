package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/kit/waitline"
	"github.com/millrace/millrace/internal/simulate/engineprofile"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// engineCalibration is the flags of `millrace bench engines --calibrate`.
type engineCalibration struct {
	url    string
	file   string
	gpu    string
	config engineprofile.Config
}

func (c *engineCalibration) add(cmd *cobra.Command) {
	c.config = engineprofile.DefaultConfig()
	f := cmd.Flags()
	f.StringVar(&c.url, "calibrate", "", "measure this engine instead (http://host:port), for a "+
		"hardware profile of it")
	f.StringVarP(&c.file, "file", "f", "", "with --calibrate: write the profile to this file, such as my-gpu.json")
	f.StringVar(&c.gpu, "gpu", "", "with --calibrate: hardware profile whose GPU and model the engine has; it is held "+
		"against what they allow")
	f.StringVar(&c.config.Adapter, "adapter", "", "with --calibrate: loaded adapter whose factor is measured too")
	f.IntVar(&c.config.MaxBatch, "max-batch", c.config.MaxBatch, "with --calibrate: most requests at once")
	f.IntVar(&c.config.LongestPrompt, "longest-prompt", c.config.LongestPrompt, "with --calibrate: tokens of the longest "+
		"prompt")
	f.IntVar(&c.config.Rounds, "rounds", c.config.Rounds, "with --calibrate: measurements of each setting")
	f.DurationVar(&c.config.MaxTime, "max-time", c.config.MaxTime, "with --calibrate: the longest that it may take")
	f.DurationVar(&c.config.Timeout, "timeout", c.config.Timeout, "with --calibrate: the longest that one completion "+
		"may take")
}

// mode reports flags that belong to the other use of the command.
func (c *engineCalibration) mode(cmd *cobra.Command) error {
	forbidden, why := []string{"file", "gpu", "adapter", "max-batch", "longest-prompt", "rounds", "max-time", "timeout"},
		"belongs to --calibrate URL"
	if c.url != "" {
		forbidden, why = []string{"counts", "engine", "speed", "seconds", "concurrency", "policy", "queue",
			"group-per-engine", "affinity-slack", "train", "groups-per-step", "samples", "years", "output"},
			"means nothing with --calibrate"
	}
	for _, name := range forbidden {
		if cmd.Flags().Changed(name) {
			return usage("--%s %s", name, why)
		}
	}
	return nil
}

// run measures the engine, shows what was found, and writes the profile.
func (c *engineCalibration) run(ctx context.Context, env environment, model string) error {
	c.config.Model = model
	c.config.Seed = uint64(time.Now().UnixNano()) // no prompt may be one of an earlier calibration's
	if err := c.config.Validate(); err != nil {
		return usage("%v", err)
	}
	like, err := enginemodel.LoadProfile(c.gpu)
	if err != nil {
		return usage("--gpu: %v", err)
	}
	if c.gpu != "" && len(like.Ceilings()) == 0 {
		return usage("--gpu %s: this profile has neither gpu nor model", c.gpu)
	}
	client, err := vllm.New(vllm.Config{BaseURL: c.url, IgnoreEOS: true,
		Key: func() string { return os.Getenv("MILLRACE_ENGINE_API_KEY") }})
	if err != nil {
		return usage("--calibrate: %v", err)
	}
	defer client.Close()
	if err := c.writable(); err != nil {
		return err
	}
	where := shown(c.url)
	line := waitline.Start(env.Stderr, "measuring "+where)
	c.config.Say = func(format string, args ...any) { line.Say(fmt.Sprintf(format, args...)) }
	c.config.At = func(done, of int) { line.At(int64(done), int64(of), "measurements", "") }
	m, err := engineprofile.Measure(ctx, client, c.config)
	line.End()
	if err != nil {
		return fmt.Errorf("engine %s: %w", where, err)
	}
	found, err := engineprofile.Calibrate(m, c.config)
	if err != nil {
		return fmt.Errorf("engine %s: %w", where, err)
	}
	name := strings.TrimSuffix(filepath.Base(cmp.Or(c.file, "calibrated.json")), filepath.Ext(c.file))
	p := found.Profile(name, where, like, c.gpu != "", time.Now())
	if err := found.WriteText(env.Stdout, p); err != nil {
		return err
	}
	return c.write(env, p)
}

// write writes the profile, if it is one that can be read again.
func (c *engineCalibration) write(env environment, p *enginemodel.Profile) error {
	if _, err := enginemodel.ReadProfile(cmp.Or(c.file, "the profile"), p.Text()); err != nil {
		return fmt.Errorf("this is not written down: is --gpu right, and is one engine behind the address? %w", err)
	}
	if c.file == "" {
		env.Say("nothing is written; -f FILE writes the profile")
		return nil
	}
	if err := os.WriteFile(c.file, p.Text(), 0o644); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	env.Say("wrote %s; a setup names it as fleet.profile, by its path", c.file)
	return nil
}

// writable finds out before minutes are spent whether the profile can be written where it should.
func (c *engineCalibration) writable() error {
	if c.file == "" {
		return nil
	}
	if filepath.Ext(c.file) != ".json" {
		return usage("-f %s: a profile is a .json file", c.file)
	}
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, os.ErrExist):
		return usage("-f %s is there already: choose another name, or move it away", c.file)
	case err != nil:
		return fmt.Errorf("write profile: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(c.file))
}

// shown is an engine's address as it may stand in a file: without a password.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the engine"
	}
	u.User = nil
	return u.String()
}
