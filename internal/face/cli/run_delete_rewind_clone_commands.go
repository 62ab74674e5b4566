package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

func (s *session) deleteCommand() *cobra.Command {
	var force bool
	cmd := s.onRun("delete RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			path := apiclient.RunPath(run)
			if force {
				path += "?force=true"
			}
			a, err := c.Call(ctx, http.MethodDelete, path, "", nil)
			if err != nil {
				return err
			}
			s.Say("run %s is deleted; what it held is removed within a minute, and its name can be used again", run)
			return s.show(a.Body, nil)
		})
	cmd.Flags().BoolVar(&force, "force", false, "stop the run first if it goes on")
	return cmd
}

func (s *session) rewindCommand() *cobra.Command {
	step := int64(-1)
	cmd := s.onRun("rewind RUN --to STEP", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if step < 0 {
				return Usage("which step? name the first one to train again with --to")
			}
			v, a, err := apiclient.Send[api.Attached](ctx, c.Client, http.MethodPost, apiclient.RunPath(run)+"/trainer",
				map[string]int64{"resume_from": step})
			if err != nil {
				return err
			}
			s.Say("run %s goes back to step %d: it and later steps are given again, with the same batches", run, step)
			s.Say("its trainer is refused from now on: restore the checkpoint before step %d and start it again; versions "+
				"stay, the next to publish is %d",
				step, v.PolicyVersion+1)
			return s.show(a.Body, nil)
		})
	cmd.Flags().Int64Var(&step, "to", -1, "the first step to train again")
	return cmd
}

func (s *session) cloneCommand() *cobra.Command {
	cmd := s.onRun("clone RUN NEW [KEY=VALUE...]", cobra.MinimumNArgs(2),
		func(ctx context.Context, c Client, run rollout.RunName, rest []string) error {
			v, _, err := c.run(ctx, run)
			if err != nil {
				return err
			}
			spec, err := cloned(v.Spec, rollout.RunName(rest[0]), rest[1:])
			if err != nil {
				return err
			}
			status, a, err := c.start(ctx, spec)
			if err != nil {
				return inNoFile(err)
			}
			s.Say("run %s started with the spec of %s; follow it with: millrace run watch %s", status.Spec.Name, run,
				status.Spec.Name)
			return s.showStatus(a, status)
		})
	return cmd
}

// cloned is a spec under a new name, with keys set to what the command line says, as a file would have it.
func cloned(spec runspec.Spec, name rollout.RunName, assignments []string) ([]byte, error) {
	if err := name.Validate(); err != nil {
		return nil, Usage("%v", err)
	}
	spec.Name = name
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("copy the spec: %w", err)
	}
	tree, err := settings.Decode(text) // a seed has more digits than a float
	if err != nil {
		return nil, fmt.Errorf("copy the spec: %w", err)
	}
	doc, set := tree.(map[string]any), map[string]bool{}
	for _, assignment := range assignments {
		key, value, ok := strings.Cut(assignment, "=")
		switch {
		case !ok || key == "":
			return nil, Usage("%q: want KEY=VALUE, such as steps=400", assignment)
		case set[key]:
			return nil, Usage("%s: given twice; keep one", key)
		case key == "name":
			return nil, Usage("the new run's name is the second argument, %s", name)
		case belowValue(doc, strings.Split(key, ".")):
			return nil, Usage("%s: what stands above it is a value and has no keys", key)
		}
		set[key] = true
		settings.Put(doc, key, document.Assigned(value))
	}
	return json.Marshal(doc)
}

// belowValue reports whether a path leads through a value that has no keys.
func belowValue(tree any, path []string) bool {
	if section, is := tree.(map[string]any); is && len(path) > 0 {
		return belowValue(section[path[0]], path[1:])
	}
	return tree != nil && len(path) > 0
}
