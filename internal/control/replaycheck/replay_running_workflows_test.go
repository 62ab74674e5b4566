package replaycheck

import (
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/workflows"
)

// names is a worker that notes which workflows are registered with it.
type names []string

func (n *names) RegisterWorkflow(w any) {
	name := path.Base(runtime.FuncForPC(reflect.ValueOf(w).Pointer()).Name())
	*n = append(*n, name[strings.LastIndex(name, ".")+1:])
}

// A worker takes tasks of every workflow that it registers, so that each of them is looked at before.
func TestEveryWorkflowIsChecked(t *testing.T) {
	t.Parallel()
	var registered names
	workflows.Register(&registered)
	for _, name := range registered {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name }) {
			t.Errorf("%s is registered and not checked", name)
		}
	}
	if len(registered) != len(kinds) {
		t.Errorf("%d workflows are registered, %d checked", len(registered), len(kinds))
	}
}
