package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/kit/retry"
)

// SearchAttributes knows whether a namespace has the attributes that Temporal lists runs and groups by, and adds them
// where this program may. Nothing depends on them: without them workflows are started without.
type SearchAttributes struct {
	Temporal  client.Client
	Namespace string
	Log       *slog.Logger

	there atomic.Bool
	told  string // the latest fault, told once
}

// How often the namespace is checked while attributes are missing and while they are there, and the timeout of a check.
// An attribute that was removed is added again.
const (
	missingEvery    = 5 * time.Second
	thereEvery      = time.Minute
	attributesLimit = 10 * time.Second
)

// There reports whether a workflow may be started with the attributes. A nil one has none.
func (s *SearchAttributes) There() bool { return s != nil && s.there.Load() }

// Keep sees to the attributes until ctx is done.
func (s *SearchAttributes) Keep(ctx context.Context) {
	for {
		s.Look(ctx)
		pause := missingEvery
		if s.there.Load() {
			pause = thereEvery
		}
		if retry.Pause(ctx, pause) != nil {
			return
		}
	}
}

// Look looks once, adds what is missing, and logs what it found if that is new.
func (s *SearchAttributes) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attributesLimit)
	defer cancel()
	err := s.ensure(ctx)
	was := s.there.Swap(err == nil)
	switch {
	case err == nil && !was:
		s.told = ""
		s.Log.Info("Temporal lists runs and groups by search attributes", "namespace", s.Namespace,
			"example", "MillraceRun = 'NAME'")
	case err != nil && err.Error() != s.told && ctx.Err() == nil:
		s.told = err.Error()
		s.Log.Warn("Temporal cannot list runs and groups by search attributes; all else works without them", "error", err)
	}
}

// ensure adds the attributes that are missing.
func (s *SearchAttributes) ensure(ctx context.Context) error {
	missing, err := s.missing(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = s.Temporal.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: s.Namespace, SearchAttributes: missing,
	})
	for err == nil && len(missing) > 0 { // it is some seconds until all of Temporal knows
		if err = retry.Pause(ctx, 200*time.Millisecond); err == nil {
			missing, err = s.missing(ctx)
		}
	}
	if err != nil && len(missing) > 0 {
		return fmt.Errorf("add search attributes: %w; somebody who may, runs: %s, or on Temporal Cloud: %s",
			err, byCLI(s.Namespace, missing), byCloudCLI(s.Namespace, missing))
	}
	return err
}

// missing is the attributes that the namespace has not. One of another type under the same name is an error.
func (s *SearchAttributes) missing(ctx context.Context) (map[string]enums.IndexedValueType, error) {
	have, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list search attributes of namespace %s: %w", s.Namespace, err)
	}
	missing := Attributes()
	for name, want := range missing {
		is, known := have[name]
		if known && is != want {
			return nil, fmt.Errorf("search attribute %s of namespace %s is %v, want %v: rename it there, and restart",
				name, s.Namespace, is, want)
		}
		if known {
			delete(missing, name)
		}
	}
	return missing, nil
}

// list asks as operators do, and where that is not allowed, as clients do.
func (s *SearchAttributes) list(ctx context.Context) (map[string]enums.IndexedValueType, error) {
	answer, err := s.Temporal.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: s.Namespace})
	if err == nil {
		return answer.GetCustomAttributes(), nil
	}
	other, otherwise := s.Temporal.GetSearchAttributes(ctx)
	if otherwise != nil {
		return nil, errors.Join(err, otherwise)
	}
	return other.GetKeys(), nil
}

func byCLI(namespace string, missing map[string]enums.IndexedValueType) string {
	text := "temporal operator search-attribute create --namespace " + namespace
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		text += fmt.Sprintf(" --name %s --type %v", name, missing[name])
	}
	return text
}

func byCloudCLI(namespace string, missing map[string]enums.IndexedValueType) string {
	var text strings.Builder
	text.WriteString("tcld namespace search-attributes add --namespace " + namespace)
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(&text, " --search-attribute %s=%v", name, missing[name])
	}
	return text.String()
}
