package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/simulate/engineprofile"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

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
