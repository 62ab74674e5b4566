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
	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/simulate/engineprofile"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// engineCalibration is what `millrace engine calibrate` was asked for.
type engineCalibration struct {
	url    string
	file   string
	gpu    string
	config engineprofile.Config
}

func newCalibrateEngineCommand(env environment) *cobra.Command {
	c := engineCalibration{config: engineprofile.DefaultConfig()}
	cmd := &cobra.Command{
		Use:  "calibrate URL",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.url = args[0]
			return c.run(cmd.Context(), env)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.file, "file", "f", "", "write the profile to this file, such as my-gpu.json")
	f.StringVar(&c.gpu, "gpu", "", "hardware profile whose GPU and model the engine has, whose limits it is held "+
		"against")
	f.StringVar(&c.config.Model, "model", "", "model or adapter to ask for (default: the first that it lists)")
	f.StringVar(&c.config.Adapter, "adapter", "", "loaded adapter whose factor is measured too")
	f.IntVar(&c.config.MaxBatch, "max-batch", c.config.MaxBatch, "most requests at once")
	f.IntVar(&c.config.LongestPrompt, "longest-prompt", c.config.LongestPrompt, "tokens of the longest prompt")
	f.IntVar(&c.config.Rounds, "rounds", c.config.Rounds, "measurements of each setting")
	f.DurationVar(&c.config.MaxTime, "max-time", c.config.MaxTime, "the longest that it may take")
	f.DurationVar(&c.config.Timeout, "timeout", c.config.Timeout, "the longest that one completion may take")
	return cmd
}

// run measures the engine, shows what was found, and writes the profile.
func (c *engineCalibration) run(ctx context.Context, env environment) error {
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
		return usage("%v", err)
	}
	defer client.Close()
	if err := c.writable(); err != nil {
		return err
	}
	where := shown(c.url)
	line := progressline.Start(env.Stderr, "measuring "+where)
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

func newProfilesCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:  "profiles [NAME|FILE]",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listProfiles(env)
			}
			return showProfile(env, args[0])
		},
	}
}

func listProfiles(env environment) error {
	t := table.New(table.Left("PROFILE"), table.Left("GPU"), table.Left("ABOUT"))
	for _, name := range enginemodel.Profiles() {
		p, err := enginemodel.LoadProfile(name)
		if err != nil {
			return err
		}
		t.Row(name, p.GPU.Name, p.About)
	}
	return t.Write(env.Stdout, 0)
}

func showProfile(env environment, name string) error {
	p, err := enginemodel.LoadProfile(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "%s: %s\n\n", p.Name, p.About)
	t := table.New(table.Left("FIGURE"), table.Right("VALUE"), table.Left("KIND"), table.Left("SOURCE"))
	for _, f := range p.Figures() {
		t.Row(f.Section+"."+f.Key, fmt.Sprintf("%g", f.Value), string(f.Kind), f.Source)
	}
	if err := t.Write(env.Stdout, 0); err != nil {
		return err
	}
	return engineprofile.WriteCeilings(env.Stdout, p)
}
