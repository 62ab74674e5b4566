package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/table"
)

func newTelemetryCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := group("telemetry", "Events that could not be delivered to Axiom: list, replay and drop them",
		"Events that could not be delivered to Axiom. How the delivery goes is in: millrace status.\n\n"+
			ExitCodesFor(ExitOK, ExitError, ExitUsage, ExitNotFound, ExitAuth, ExitUnavailable))
	s.flags(cmd)
	letters := group("dead-letters", "Events that Axiom refused for what they are, with its reasons",
		"Events that Axiom refused for what they are, while it took others. Each is kept with Axiom's reason\n"+
			"until it is replayed or dropped; 10,000 at most, beyond which delivery waits rather than lose a fact.\n"+
			"The service's own store, which diagnosis reads, has them all the same.")
	list := s.listLettersCommand()
	letters.AddCommand(list, s.showLetterCommand(),
		s.changeLettersCommand("replay", "Deliver refused events again, for when the cause is gone", "to be delivered again",
			"  millrace telemetry dead-letters replay --all\n  millrace telemetry dead-letters replay 1700000000000-0"),
		s.changeLettersCommand("drop", "Give refused events up; the service's own store keeps its copies", "dropped",
			"  millrace telemetry dead-letters drop --all"))
	unknown := letters.RunE
	letters.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return list.RunE(cmd, args)
		}
		return unknown(cmd, args)
	}
	cmd.AddCommand(letters, s.forgetSinkCommand())
	return cmd
}

func (s *session) forgetSinkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "forget SINK", Short: "Forget a sink that was switched off, with what waits for it", Args: exactly(1),
		Long: "Forget a sink, such as axiom, that no server delivers to any more: its dead letters and its counts go, and " +
			"events\nare no longer kept for it. Refused while a server delivers. A sink that is used again begins anew, an " +
			"hour back.",
		Example: "  millrace telemetry forget axiom",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			_, err = c.Call(cmd.Context(), http.MethodDelete, "/v1/sinks/"+url.PathEscape(args[0]), "", nil)
			var refused *apiclient.Problem
			if errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity {
				return usage("%q is no sink: events are delivered to axiom", args[0])
			}
			if err == nil {
				s.say("%s is forgotten", args[0])
			}
			return err
		},
	}
}

// letter is an event that Axiom refused.
type letter struct {
	ID     string          `json:"id"`
	Event  string          `json:"event_id"`
	At     time.Time       `json:"at"`
	Run    rollout.RunName `json:"run_id"`
	Kind   string          `json:"kind"`
	Reason string          `json:"reason"`
	Data   json.RawMessage `json:"data"`
}

type letterPage struct {
	DeadLetters []letter `json:"dead_letters"`
	Kept        int64    `json:"kept"`
	Ever        int64    `json:"ever"`
	Next        string   `json:"next"`
}

const lettersPath = "/v1/sinks/axiom/dead-letters"

func (c Client) deadLetters(ctx context.Context, after string, limit int) (letterPage, apiclient.Answer, error) {
	return apiclient.Get[letterPage](ctx, c.Client, fmt.Sprintf("%s?limit=%d&after=%s", lettersPath, limit,
		url.QueryEscape(after)))
}

func (s *session) listLettersCommand() *cobra.Command {
	limit, after := 100, ""
	cmd := &cobra.Command{
		Use: "list", Short: "List refused events, oldest first, with Axiom's reasons", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			page, a, err := c.deadLetters(cmd.Context(), after, limit)
			if err != nil {
				return err
			}
			switch {
			case page.Kept == 0 && page.Ever == 0:
				s.say("no dead letters: Axiom has refused no event")
			case page.Kept == 0:
				s.say("no dead letters; of the %d that there were, each was replayed or dropped", page.Ever)
			case page.Next != "":
				s.say("%d of %d; the next with: --after %s", len(page.DeadLetters), page.Kept, page.Next)
			}
			return s.show(a.Body, func() error {
				if len(page.DeadLetters) == 0 {
					return nil
				}
				return s.write(lettersTable(page.DeadLetters, s.now()))
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many, 1 to 1000")
	cmd.Flags().StringVar(&after, "after", "", "only those after the one with this id")
	return cmd
}

func lettersTable(letters []letter, now time.Time) *table.Table {
	t := table.New(table.Left("ID"), table.Right("REFUSED"), table.Left("EVENT"), table.Left("REASON"))
	for _, l := range letters {
		t.Row(l.ID, ago(l.At, now), l.Event, l.Reason)
	}
	return t
}

func (s *session) showLetterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a refused event as it is kept", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			for after := ""; ; {
				page, _, err := c.deadLetters(cmd.Context(), after, 1000)
				if err != nil {
					return err
				}
				for _, l := range page.DeadLetters {
					if l.ID == args[0] || l.Event == args[0] {
						return s.showLetter(l)
					}
				}
				if after = page.Next; after == "" {
					return &apiclient.Problem{Status: http.StatusNotFound, Title: "No such dead letter",
						Detail: fmt.Sprintf("no dead letter %s; see: millrace telemetry dead-letters list", args[0])}
				}
			}
		},
	}
}

func (s *session) showLetter(l letter) error {
	document, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	return s.show(document, func() error {
		t := table.New(table.Left(""), table.Left(""))
		t.Row("id", l.ID)
		t.Row("event", l.Event)
		t.Row("kind", l.Kind)
		t.Row("refused", l.At.Format(time.RFC3339)+", "+ago(l.At, s.now()))
		t.Row("reason", l.Reason)
		if err := s.write(t); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := json.Indent(&b, l.Data, "", "  "); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		_, err := fmt.Fprintf(s.Stdout, "\n%s\n", escapeControls(b.Bytes()))
		return err
	})
}

func (s *session) changeLettersCommand(do, short, done, example string) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: do + " [ID...] [--all]", Short: short, Example: example, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage("which dead letters? name them as listed, or say --all")
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			body := map[string]any{"ids": args}
			if all {
				body = map[string]any{"all": true}
			}
			type counted struct {
				Events int64 `json:"events"`
			}
			n, a, err := apiclient.Send[counted](cmd.Context(), c.Client, http.MethodPost, lettersPath+"/"+do, body)
			if err != nil {
				return err
			}
			return s.show(a.Body, func() error {
				s.say("%d events %s", n.Events, done)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}
