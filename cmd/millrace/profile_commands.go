package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/simulate/engineprofile"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

func newProfileCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "profile",
		Short: "Hardware profiles: what simulations take an engine for, and where each figure comes from",
	}
	parent.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the hardware profiles that come with the program", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return listProfiles(env) },
		},
		&cobra.Command{
			Use: "show NAME|FILE", Short: "Show a profile's figures, their sources and what its GPU allows at most",
			Example: "  millrace profile show a100-80gb\n  millrace profile show ./my-gpu.json",
			Args:    cobra.ExactArgs(1),
			RunE:    func(_ *cobra.Command, args []string) error { return showProfile(env, args[0]) },
		},
	)
	return parent
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
