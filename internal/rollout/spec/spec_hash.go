package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// hashVersion leads every hash. Another way of hashing gets another one.
const hashVersion = "1-"

// Hash is the identity of a spec: two specs that ask for the same run have the same one, however their keys are
// ordered and whether they spell out defaults; those of an environment's options are the environment's to know. It
// covers what differs from the defaults, so that a release that adds keys changes the hash of no spec.
func Hash(s runspec.Spec) string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // options that are no JSON: it is the same as no other
	}
	return hashText(text)
}

func hashText(text []byte) string {
	s := Default()
	if json.Unmarshal(text, &s) != nil {
		return ""
	}
	keys.FillWords(&s)
	Complete(&s, func(string) bool { return false })
	defaults := Default()
	defaults.Group.MinSamples = s.Group.Samples
	lines := []string{}
	for _, key := range keys.Keys {
		v := key.Of(&s)
		section := v.IsValid() && v.Kind() == reflect.Struct && key.Path != "environment"
		if !v.IsValid() || section {
			continue // what is below it has lines of its own, or is in that of its list
		}
		value, err := canonical(v.Interface())
		if err != nil {
			return ""
		}
		if standard, err := canonical(key.Of(&defaults).Interface()); err != nil || value != standard {
			lines = append(lines, key.Path+"="+value)
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hashVersion + hex.EncodeToString(sum[:])
}

// canonical is a value as JSON in one way of several: keys are sorted, and numbers are written alike.
func canonical(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	tree, err := settings.Decode(text)
	if err != nil {
		return "", err
	}
	text, err = json.Marshal(shortest(tree))
	return string(text), err
}

// shortest writes every number of a tree in its shortest form.
func shortest(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			tree[name] = shortest(value)
		}
	case []any:
		for i, item := range tree {
			tree[i] = shortest(item)
		}
	case json.Number:
		if n, err := tree.Int64(); err == nil {
			return n
		}
		if x, err := tree.Float64(); err == nil {
			return x
		}
	}
	return tree
}
