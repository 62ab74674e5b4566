package spec

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// TestReferencePage holds the page about run specs to the table that specs are read by.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	markdowntest.Hold(t, "../../../docs/spec.md", "keys", specReference())
}

// specReference is a table of keys for each section of a run spec.
func specReference() string {
	var b strings.Builder
	defaults := Default()
	head := func(title, doc string) {
		fmt.Fprintf(&b, "\n### %s\n\n", title)
		if doc != "" {
			fmt.Fprintf(&b, "%s.\n\n", sentence(doc))
		}
		b.WriteString("| key | default | values | live | meaning |\n|---|---|---|---|---|\n")
	}
	head("The run", "")
	open := "" // the section whose table is being written
	for _, key := range keys.Keys {
		section := section(key.Path) && key.Path != "environment"
		switch {
		case section, key.Path == "policies":
			head("`"+key.Path+"`", key.Doc)
			open = key.Path
			continue
		case !strings.Contains(key.Path, ".") && open != "":
			head("The run, continued", "")
			open = ""
		}
		live := ""
		if key.Live {
			live = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", key.Path, standard(key, &defaults), key.Values(&defaults), live,
			strings.ReplaceAll(key.Doc, "|", `\|`))
	}
	b.WriteByte('\n')
	return b.String()
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// standard is the default of a key.
func standard(key settings.Key, defaults *runspec.Spec) string {
	v := key.Of(defaults)
	switch {
	case strings.HasPrefix(key.Path, "environment"), key.Required && (!v.IsValid() || v.IsZero()):
		return "required"
	case key.Path == "group.min_samples":
		return "`samples`"
	case !v.IsValid() || v.Kind() == reflect.Slice:
		return "none"
	}
	if text := key.Text(defaults); text != "" {
		return "`" + text + "`"
	}
	return "none"
}
