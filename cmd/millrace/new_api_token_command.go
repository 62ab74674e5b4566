package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/access"
)

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
	if name == "" {
		name = role
	}
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
