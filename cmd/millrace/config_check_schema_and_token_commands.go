package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
)

func newConfigCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use: "config",
	}
	var kind fileKind
	check := &cobra.Command{
		Use:  "check FILE...",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if err := kind.validate(); err != nil {
				return err
			}
			return checkFiles(env, files, kind)
		},
	}
	kind.flags(check, "the files are")
	schema := &cobra.Command{
		Use:  "schema",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := kind.validate(); err != nil {
				return err
			}
			text := specfile.Schema()
			switch {
			case kind.service:
				text = config.ServiceSchema()
			case kind.setup:
				text = sim.Schema()
			}
			_, err := env.Stdout.Write(text)
			return err
		},
	}
	kind.flags(schema, "the schema of")
	parent.AddCommand(check, schema, newTokenCommand(env))
	return parent
}

// fileKind is which kind of file a command is about: run specs, unless it says otherwise.
type fileKind struct{ service, setup bool }

func (k *fileKind) flags(cmd *cobra.Command, about string) {
	cmd.Flags().BoolVar(&k.service, "service", false, about+" service configurations, not run specs")
	cmd.Flags().BoolVar(&k.setup, "setup", false, about+" setups of simulations, not run specs")
}

func (k *fileKind) validate() error {
	if k.service && k.setup {
		return usage("--service and --setup exclude each other")
	}
	return nil
}

func checkFiles(env environment, files []string, kind fileKind) error {
	faulty := 0
	for _, file := range files {
		data, err := env.ReadFile(file)
		if err != nil {
			return usage("%v", err)
		}
		switch {
		case kind.service:
			_, err = config.ReadService(file, data, os.Getenv)
		case kind.setup:
			_, _, err = setup.Read(file, data, nil)
		default:
			_, err = specfile.Read(file, data)
		}
		if err != nil {
			faulty++
			env.Say("%v", err)
			continue
		}
		if _, err := fmt.Fprintf(env.Stdout, "%s: ok\n", file); err != nil {
			return err
		}
	}
	if faulty > 0 {
		return fmt.Errorf("%d of %d files cannot be used", faulty, len(files))
	}
	return nil
}

func newTokenCommand(env environment) *cobra.Command {
	var name, role, expires string
	var runs []string
	create := &cobra.Command{
		Use:  "token",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := access.NewToken()
			line, err := tokenLine(name, role, runs, expires, text)
			if err != nil {
				return err
			}
			env.Say("The token, which is shown only this once, is on standard output. Its line under tokens: in the file of "+
				"auth.tokens_file:\n\n  %s\n", line)
			_, err = fmt.Fprintln(env.Stdout, text)
			return err
		},
	}
	f := create.Flags()
	f.StringVar(&name, "name", "", "its holder's name, in audits and logs (default: the role)")
	f.StringVar(&role, "role", "", "operator, trainer or reader")
	f.StringArrayVar(&runs, "run", nil, "a run that it is for, with * for any text; repeatable; not for operators")
	f.StringVar(&expires, "expires", "", "when it ends, such as 2027-01-31T00:00:00Z (default: never)")
	return create
}

// tokenLine is the line of a tokens file for a token, judged as a server would.
func tokenLine(name, role string, runs []string, expires, token string) (string, error) {
	name = cmp.Or(name, role)
	quoted := make([]string, len(runs))
	for i, run := range runs {
		quoted[i] = fmt.Sprintf("%q", run)
	}
	line := fmt.Sprintf("- {name: %q, role: %q, ", name, role)
	if len(runs) > 0 {
		line += "runs: [" + strings.Join(quoted, ", ") + "], "
	}
	if expires != "" {
		line += fmt.Sprintf("expires: %q, ", expires)
	}
	line += "sha256: " + access.HashOf(token).String() + "}"
	if _, err := access.ReadTokens("token", []byte("tokens:\n  "+line+"\n")); err != nil {
		return "", usage("%v", err)
	}
	return line, nil
}
