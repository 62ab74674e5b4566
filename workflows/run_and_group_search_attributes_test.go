package workflows

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// namespace is a Temporal with search attributes.
type namespace struct {
	client.Client
	operatorservice.OperatorServiceClient
	have            map[string]enums.IndexedValueType
	mayList, mayAdd bool
	refuses         bool // a start with attributes
	starts          []client.StartWorkflowOptions
}

func (n *namespace) OperatorService() operatorservice.OperatorServiceClient { return n }

func (n *namespace) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest,
	...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	if !n.mayList {
		return nil, serviceerror.NewPermissionDenied("no operator", "")
	}
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: maps.Clone(n.have)}, nil
}

func (n *namespace) AddSearchAttributes(_ context.Context, in *operatorservice.AddSearchAttributesRequest,
	_ ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	if !n.mayAdd {
		return nil, serviceerror.NewPermissionDenied("no operator", "")
	}
	maps.Copy(n.have, in.GetSearchAttributes())
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

func (n *namespace) GetSearchAttributes(context.Context) (*workflowservice.GetSearchAttributesResponse, error) {
	return &workflowservice.GetSearchAttributesResponse{Keys: maps.Clone(n.have)}, nil
}

func (n *namespace) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any,
	_ ...any) (client.WorkflowRun, error) {
	n.starts = append(n.starts, o)
	if n.refuses && o.TypedSearchAttributes.Size() > 0 {
		return nil, serviceerror.NewInvalidArgument("no mapping defined for search attribute MillraceRun")
	}
	return nil, nil
}

// A namespace's attributes are added where that is allowed; where it is not, the log says which command adds them.
func TestSearchAttributesOfANamespace(t *testing.T) {
	t.Parallel()
	all := Attributes()
	wrong := maps.Clone(all)
	wrong["MillraceStep"] = enums.INDEXED_VALUE_TYPE_KEYWORD
	for _, tt := range []struct {
		name            string
		have            map[string]enums.IndexedValueType
		mayList, mayAdd bool
		there           bool
		says            string
	}{
		{"none, and they may be added", map[string]enums.IndexedValueType{}, true, true, true, "MillraceRun"},
		{"all there", maps.Clone(all), true, false, true, ""},
		{"all there, and only a client may ask", maps.Clone(all), false, false, true, ""},
		{"none, and nobody may add any", map[string]enums.IndexedValueType{}, true, false, false,
			"temporal operator search-attribute create --namespace rl --name MillraceCode --type Keyword"},
		{"the same on Temporal Cloud", map[string]enums.IndexedValueType{}, false, false, false,
			"tcld namespace search-attributes add --namespace rl --search-attribute MillraceCode=Keyword"},
		{"one is of another type", wrong, true, true, false, "MillraceStep of namespace rl is Keyword, want Int"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			temporal := &namespace{have: tt.have, mayList: tt.mayList, mayAdd: tt.mayAdd}
			s := &SearchAttributes{Temporal: temporal, Namespace: "rl", Log: slog.New(slog.NewTextHandler(&log, nil))}
			for range 2 {
				s.Look(t.Context())
			}
			if s.There() != tt.there || !strings.Contains(log.String(), tt.says) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("there: %v, want %v; the log, which says things once, has no %q:\n%s", s.There(), tt.there, tt.says, &log)
			}
		})
	}
}

// A run is started with attributes where the namespace has them, and without where it has lost them since.
func TestARunIsStartedWithOrWithoutAttributes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		known   bool
		refuses bool
		want    []int // attributes of each start
	}{
		{"known", true, false, []int{4}},
		{"not known", false, false, []int{0}},
		{"lost since", true, true, []int{4, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			temporal := &namespace{refuses: tt.refuses}
			c := &Client{Temporal: temporal, Attributes: &SearchAttributes{}, Page: "http://example.org/rl/"}
			c.Attributes.there.Store(tt.known)
			given := spec.Default()
			given.Name = "one"
			err := c.startRun(t.Context(), client.StartWorkflowOptions{Memo: map[string]any{}},
				runstatus.RunStatus{Spec: given}, RunInput{})
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, o := range temporal.starts {
				got = append(got, o.TypedSearchAttributes.Size())
				if o.Memo[memoPage] != "http://example.org/rl/runs/one" || o.StaticSummary == "" || o.StaticDetails == "" {
					t.Errorf("page %v, summary %q, details %q", o.Memo[memoPage], o.StaticSummary, o.StaticDetails)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("started with %v attributes, want %v", got, tt.want)
			}
		})
	}
}

// Every activity has a summary of its own kind of input, and none is longer than Temporal takes.
func TestEveryActivityHasASummary(t *testing.T) {
	t.Parallel()
	for _, all := range []reflect.Type{reflect.TypeFor[*activities.Activities](), reflect.TypeFor[*activities.Scaling]()} {
		for i := range all.NumMethod() {
			m := all.Method(i)
			var args []any
			for j := 2; j < m.Type.NumIn(); j++ { // after the receiver and the context
				args = append(args, reflect.Zero(m.Type.In(j)).Interface())
			}
			if Summary(m.Name, args...) == "" {
				t.Errorf("%s has no summary", m.Name)
			}
		}
	}
	long := activities.MirrorInput{Change: strings.Repeat("ä", 400)}
	if text := clipped(Summary("Mirror", long)); len(text) > maxSummary || !strings.HasSuffix(text, "ä…") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestWebUI(t *testing.T) {
	t.Parallel()
	ui := WebUI{Address: "http://127.0.0.1:8233/", Namespace: "rl.a1b2", Deployment: "millrace"}
	ref := rollout.GroupRef{Run: "demo@2", Seq: 7}
	for _, tt := range []struct{ got, want string }{
		{ui.Run("demo"), "http://127.0.0.1:8233/namespaces/rl.a1b2/workflows/millrace%2Frun%2Fdemo"},
		{ui.Group(ref), "http://127.0.0.1:8233/namespaces/rl.a1b2/workflows/millrace%2Fgroup%2Fdemo@2%2F7"},
		{ui.Fleet(), "http://127.0.0.1:8233/namespaces/rl.a1b2/workflows/millrace%2Ffleet"},
		{ui.Runs("demo"), "http://127.0.0.1:8233/namespaces/rl.a1b2/workflows?query=MillraceRun%3D%22demo%22"},
		{WebUI{}.Run("demo"), ""}, {WebUI{}.Runs("demo"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
	}
}

func TestRunDetails(t *testing.T) {
	t.Parallel()
	given := spec.Default()
	given.Name, given.Model, given.Steps, given.Environment.Kind = "demo", "qwen", 9, "tictactoe"
	s := runmachine.NewRun(given, time.Unix(0, 0)).Status()
	s.State, s.Reason, s.NextStep, s.PolicyVersion = runstatus.RunPaused, "by hand", 3, 2
	s.Launched, s.Outstanding, s.Rollbacks, s.Throttle = 40, 8, 1, runstatus.ThrottleStaleness
	s.Failures = map[rollout.Code]int64{"stale": 2, "env": 1}
	got := runDetails(s, "http://x/runs/demo")
	for _, want := range []string{"**paused** (by hand)", "run demo: 9 steps", "step 3 of 9, policy version 2",
		"40 groups launched, 8 of them outstanding", "3 groups given up", "max_staleness", "came back older 1 times",
		"(http://x/runs/demo)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
