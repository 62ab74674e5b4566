package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	client "github.com/axiomhq/axiom-go/axiom"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Caller makes one call of Axiom's API; axiom-go's client is one.
type Caller interface {
	Call(ctx context.Context, method, path string, body, answer any) error
}

// Action is what must be done about a resource.
type Action string

// The actions.
const (
	Keep   Action = "keep"
	Create Action = "create"
	Update Action = "update"
)

// Change is one resource of the plan.
type Change struct {
	Kind   string // dataset, map field, fields, dashboard or monitor
	Name   string
	Action Action
	Diff   []string // of an update: what is different
	do     func(context.Context) error
}

// Options are what may differ between organizations.
type Options struct {
	Notifiers []string // names or ids that new monitors notify
}

// Plan is what must change in Axiom, in the order in which it can be. It changes nothing.
func Plan(ctx context.Context, axiom Caller, want Set, o Options, now time.Time) ([]Change, error) {
	p := &planner{axiom: axiom, want: want, now: now}
	exists, err := p.dataset(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, bool) error{p.mapFields, p.fields} {
		if err := step(ctx, exists); err != nil {
			return nil, err
		}
	}
	if err := p.dashboards(ctx); err != nil {
		return nil, err
	}
	return p.changes, p.monitors(ctx, o)
}

// Apply does what a plan says, one after another, and calls done after each that was not kept. A resource that is
// refused does not keep the others from being made; the errors come together.
func Apply(ctx context.Context, changes []Change, done func(Change, error)) error {
	var faults []error
	for _, c := range changes {
		if c.Action == Keep {
			continue
		}
		err := c.do(ctx)
		done(c, err)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s %s: %w", c.Action, c.Kind, c.Name, err))
		}
		if err != nil && (ctx.Err() != nil || c.Kind == "dataset") {
			break
		}
	}
	return errors.Join(faults...)
}

type planner struct {
	axiom   Caller
	want    Set
	now     time.Time
	changes []Change
}

func (p *planner) add(kind, name string, action Action, diff []string, do func(context.Context) error) {
	p.changes = append(p.changes, Change{kind, name, action, diff, do})
}

// call explains a refusal: Axiom says "forbidden" without naming the permission.
func (p *planner) call(ctx context.Context, permission, method, path string, body, into any) error {
	return explained(p.axiom.Call(ctx, method, path, body, into), permission)
}

// ErrRefused is returned when Axiom refuses a token, or the token lacks a permission.
var ErrRefused = errors.New("refused")

// ErrUnavailable is returned when Axiom, or a proxy before it, cannot answer at present.
var ErrUnavailable = errors.New("is unavailable")

func explained(err error, permission string) error {
	var answer client.HTTPError
	var limit client.LimitError
	switch {
	case errors.As(err, &limit):
		return fmt.Errorf("%w; Axiom limits requests: try again later", err)
	case !errors.As(err, &answer):
		return err
	case answer.Status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case answer.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: Axiom does not know this token: %s; make one at Settings > API tokens and set AXIOM_TOKEN",
			ErrRefused, answer.Message)
	case answer.Status == http.StatusForbidden && !strings.Contains(answer.Message, "plan"):
		what, how, _ := strings.Cut(permission, "|")
		return fmt.Errorf("%w: the token lacks the permission %s: %s (Axiom: %s); give it to the token at "+
			"Settings > API tokens > Advanced, or use one that has it: the token that the service ships with needs only ingest",
			ErrRefused, what, how, answer.Message)
	}
	return err
}

func (p *planner) path(more string) string {
	return "/v2/datasets/" + url.PathEscape(p.want.Dataset) + more
}

func (p *planner) dataset(ctx context.Context) (exists bool, err error) {
	err = p.call(ctx, "datasets|read", http.MethodGet, p.path(""), nil, &struct{}{})
	var answer client.HTTPError
	switch {
	case err == nil:
		p.add("dataset", p.want.Dataset, Keep, nil, nil)
		return true, nil
	case !errors.As(err, &answer) || answer.Status != http.StatusNotFound:
		return false, fmt.Errorf("read dataset %s: %w", p.want.Dataset, err)
	}
	p.add("dataset", p.want.Dataset, Create, nil, func(ctx context.Context) error {
		return p.call(ctx, "datasets|create", http.MethodPost, "/v2/datasets", map[string]any{"name": p.want.Dataset,
			"description": "Events of Millrace: training runs, their steps, groups, games and engines"}, &struct{}{})
	})
	return false, nil
}

// mapFields declares fields whose names are open as one field each, before rows make one of every name.
func (p *planner) mapFields(ctx context.Context, exists bool) error {
	var have []string
	if exists {
		if err := p.call(ctx, "datasets|read", http.MethodGet, p.path("/mapfields"), nil, &have); err != nil {
			return fmt.Errorf("list map fields: %w", err)
		}
	}
	for _, name := range p.want.MapFields {
		if slices.Contains(have, name) {
			p.add("map field", name, Keep, nil, nil)
			continue
		}
		p.add("map field", name, Create, nil, func(ctx context.Context) error {
			return p.call(ctx, "datasets|update", http.MethodPost, p.path("/mapfields"), map[string]any{"name": name},
				&struct{}{})
		})
	}
	return nil
}

// fields makes every field known to the dataset, by one row with all of them. Axiom refuses a query for a field without
// rows, and so would refuse the charts of a new run.
func (p *planner) fields(ctx context.Context, exists bool) error {
	var have []struct {
		Name string `json:"name"`
	}
	if exists {
		if err := p.call(ctx, "datasets|read", http.MethodGet, p.path("/fields"), nil, &have); err != nil {
			return fmt.Errorf("list fields: %w", err)
		}
	}
	known := map[string]bool{}
	for _, f := range have {
		known[f.Name] = true
	}
	row := FullRow(p.now)
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if !known[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		p.add("fields", fmt.Sprintf("all %d", len(row)), Keep, nil, nil)
		return nil
	}
	some := strings.Join(missing[:min(6, len(missing))], ", ")
	if len(missing) > 6 {
		some += fmt.Sprintf(" and %d more", len(missing)-6)
	}
	name := fmt.Sprintf("%d of %d", len(missing), len(row))
	p.add("fields", name, Create, []string{some}, func(ctx context.Context) error {
		var status struct {
			Failures []struct{ Error string }
		}
		err := p.call(ctx, "ingest|create", http.MethodPost, "/v1/datasets/"+url.PathEscape(p.want.Dataset)+"/ingest",
			[]telemetry.Row{row}, &status)
		if err == nil && len(status.Failures) > 0 {
			err = fmt.Errorf("the row with all fields was refused: %s", status.Failures[0].Error)
		}
		return err
	})
	return nil
}

// document plans that Axiom has a dashboard or a monitor as it is wanted; have is empty where there is none yet.
func (p *planner) document(kind, name string, want any, have json.RawMessage,
	create, update func(context.Context) error, except ...string) error {
	if len(have) == 0 {
		p.add(kind, name, Create, nil, create)
		return nil
	}
	diff, err := differences(want, have, except...)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", kind, name, err)
	case len(diff) == 0:
		p.add(kind, name, Keep, nil, nil)
	default:
		p.add(kind, name, Update, diff, update)
	}
	return nil
}

// sender is what sends a document.
func (p *planner) sender(permission, method, path string, document any) func(context.Context) error {
	return func(ctx context.Context) error { return p.call(ctx, permission, method, path, document, &struct{}{}) }
}

// dashboards are found by their names, which have the dataset's in them.
func (p *planner) dashboards(ctx context.Context) error {
	type existing struct {
		UID       string          `json:"uid"`
		Version   int64           `json:"version"`
		Dashboard json.RawMessage `json:"dashboard"`
	}
	var have []existing
	if err := p.call(ctx, "dashboards|read", http.MethodGet, "/v2/dashboards", nil, &have); err != nil {
		return fmt.Errorf("list dashboards: %w", err)
	}
	for _, want := range p.want.Dashboards {
		var old existing
		if i := slices.IndexFunc(have, func(d existing) bool { return nameOf(d.Dashboard) == want.Name }); i >= 0 {
			old = have[i]
		}
		err := p.document("dashboard", want.Name, want, old.Dashboard,
			p.sender("dashboards|create", http.MethodPost, "/v2/dashboards", map[string]any{"dashboard": want}),
			p.sender("dashboards|update", http.MethodPut, "/v2/dashboards/uid/"+url.PathEscape(old.UID),
				map[string]any{"dashboard": want, "version": old.Version, "message": "millrace axiom apply"}), "owner")
		if err != nil {
			return err
		}
	}
	return nil
}

func nameOf(document json.RawMessage) string {
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(document, &named) != nil {
		return ""
	}
	return named.Name
}

// monitors are found by their names. Their notifiers, and whether they are switched off, are people's.
func (p *planner) monitors(ctx context.Context, o Options) error {
	var have []json.RawMessage
	if err := p.call(ctx, "monitors|read", http.MethodGet, "/v2/monitors", nil, &have); err != nil {
		return fmt.Errorf("list monitors: %w", err)
	}
	notifiers, err := p.notifiers(ctx, o)
	if err != nil {
		return err
	}
	for _, want := range p.want.Monitors {
		var document json.RawMessage
		var old struct {
			ID          string   `json:"id"`
			NotifierIDs []string `json:"notifierIds"`
			Disabled    bool     `json:"disabled"`
		}
		if i := slices.IndexFunc(have, func(m json.RawMessage) bool { return nameOf(m) == want.Name }); i >= 0 {
			document = have[i]
			if err := json.Unmarshal(document, &old); err != nil {
				return fmt.Errorf("monitor %s: %w", want.Name, err)
			}
		}
		want.NotifierIDs, want.Disabled = append([]string{}, old.NotifierIDs...), old.Disabled
		for _, id := range notifiers {
			if !slices.Contains(want.NotifierIDs, id) {
				want.NotifierIDs = append(want.NotifierIDs, id)
			}
		}
		err := p.document("monitor", want.Name, want, document,
			p.sender("monitors|create", http.MethodPost, "/v2/monitors", want),
			p.sender("monitors|update", http.MethodPut, "/v2/monitors/"+url.PathEscape(old.ID), want))
		if err != nil {
			return err
		}
	}
	return nil
}

// notifiers finds the ids of those that were named.
func (p *planner) notifiers(ctx context.Context, o Options) ([]string, error) {
	if len(o.Notifiers) == 0 {
		return nil, nil
	}
	type notifier struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	var have []notifier
	if err := p.call(ctx, "notifiers|read", http.MethodGet, "/v2/notifiers", nil, &have); err != nil {
		return nil, fmt.Errorf("list notifiers: %w", err)
	}
	var ids, names []string
	for _, n := range have {
		names = append(names, n.Name)
	}
	for _, want := range o.Notifiers {
		i := slices.IndexFunc(have, func(n notifier) bool { return n.ID == want || n.Name == want })
		if i < 0 {
			return nil, fmt.Errorf("no notifier is named %q; Axiom has %s", want, orNone(names))
		}
		ids = append(ids, have[i].ID)
	}
	return ids, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none: make one at Monitors > Notifiers"
	}
	return strings.Join(names, ", ")
}
