package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/cli"
)

// TestNamedCommandsAreThere: whatever advises a command of a group, in a message, on the page or in the documentation,
// names one that there is.
func TestNamedCommandsAreThere(t *testing.T) {
	t.Parallel()
	groups := map[string][]string{}
	for _, group := range newRootCommand(environment{cli.Deps{Getenv: os.Getenv}}).Commands() {
		for _, c := range group.Commands() {
			groups[group.Name()] = append(groups[group.Name()], c.Name())
		}
	}
	named := regexp.MustCompile(`(?:millrace |` + "`" + `)(run|engine|config|axiom|trainer) ([a-z]+(?:-[a-z]+)*)\b`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2:
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"),
			!slices.Contains([]string{".go", ".md", ".html", ".py", ".yaml", ".json"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; !slices.Contains(groups[m[1]], m[2]) {
				t.Errorf("%s names `millrace %s %s`, which there is not", path, m[1], m[2])
			}
		}
		return err
	})
	if err != nil || found < 100 {
		t.Errorf("%d commands are named: %v", found, err)
	}
}
