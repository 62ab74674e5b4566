package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// retired is the words that retired_words.md lists.
type retired struct {
	names []string                  // not in identifiers and file names
	prose map[string]*regexp.Regexp // not in comments, messages and pages
}

// Go files and pages are searched. Names on the wire stay: of JSON, Redis, metrics and queries. They stand in strings
// without a space, in quotes, in addresses, and in the scripts and histories that are no Go.
func TestRetiredWordsStayRetired(t *testing.T) {
	t.Parallel()
	words := readRetired(t)
	inTree(t, func(path, text string) {
		found := func(at, word string) {
			t.Errorf("%s: %q is retired; retired_words.md has what to say instead", at, word)
		}
		words.inName(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), path, found)
		if filepath.Ext(path) == ".md" {
			if filepath.Base(path) != "retired_words.md" {
				words.inProse(verbatim.ReplaceAllString(text, ""), path, found)
				words.inName(strings.Join(verbatim.FindAllString(text, -1), " "), path, found)
			}
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			words.inProse(group.Text(), set.Position(group.Pos()).String(), found)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if slices.Contains(namesOfLibraries, n.Name) {
					break
				}
				words.inName(n.Name, set.Position(n.Pos()).String(), found)
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.Contains(s, " ") {
					words.inProse(s, set.Position(n.Pos()).String(), found)
				}
			}
			return true
		})
	})
}

// namesOfLibraries are names with retired words that others have chosen.
var namesOfLibraries = []string{"NewMeterProvider"}

// verbatim is what a page quotes: blocks and spans of code, whose words are names.
var verbatim = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// readRetired reads the table of retired_words.md: the word, what to say instead, where it is retired.
func readRetired(t *testing.T) retired {
	t.Helper()
	table, err := os.ReadFile("retired_words.md")
	if err != nil {
		t.Fatal(err)
	}
	words := retired{prose: map[string]*regexp.Regexp{}}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| .* \| ([a-z, ]+) \|$`).FindAllStringSubmatch(string(table), -1) {
		if strings.Contains(row[2], "name") {
			words.names = append(words.names, row[1])
		}
		if strings.Contains(row[2], "prose") { // and not a quoted name, or one in a query or a path
			words.prose[row[1]] = regexp.MustCompile(`(?i)(^|[^\w"?&/.-])` + row[1] + `($|[^\w"=])`)
		}
	}
	if len(words.names) < 5 || len(words.prose) < 5 {
		t.Fatalf("the table of retired words has %d names and %d of prose", len(words.names), len(words.prose))
	}
	return words
}

var namePart = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

func (r retired) inName(name, at string, found func(at, word string)) {
	for _, part := range namePart.FindAllString(name, -1) {
		if part = strings.ToLower(part); slices.Contains(r.names, part) {
			found(at, part)
		}
	}
}

func (r retired) inProse(text, at string, found func(at, word string)) {
	text = strings.Join(strings.Fields(text), " ")
	for word, pattern := range r.prose {
		if pattern.MatchString(text) {
			found(at, word)
		}
	}
}

// A newcomer learns the words before the code, so there are few.
func TestFewWordsHaveToBeLearnt(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, words, _ := strings.Cut(string(page), "\n## Words\n")
	terms := 0
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \| `).FindAllStringSubmatch(words, -1) {
		terms += len(strings.Split(row[1], ","))
	}
	if terms-1 > 50 || terms < 20 { // the first row is the table's head
		t.Errorf("ARCHITECTURE.md has %d words to learn, want 50 at most", terms-1)
	}
}

// inTree calls f with every Go file and page of the repository.
func inTree(t *testing.T, f func(path, text string)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name != "." && strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err == nil {
			f(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longest is how many characters a line may have, of which a tab is one.
const longest = 120

// Lines fit the width of a screen. Raw strings are verbatim, and so are tables, code and addresses in pages.
func TestLinesAreShort(t *testing.T) {
	t.Parallel()
	inTree(t, func(path, text string) {
		page := filepath.Ext(path) == ".md"
		code, raw := false, false
		for i, line := range strings.Split(text, "\n") {
			code = code != strings.HasPrefix(line, "```")
			ticks := strings.Count(line, "`")
			quoted := raw || ticks > 0
			raw = raw != (ticks%2 == 1)
			if len([]rune(line)) <= longest {
				continue
			}
			if page && !code && !strings.HasPrefix(line, "|") || !page && !quoted &&
				!strings.HasPrefix(strings.TrimSpace(line), "//\t") {
				t.Errorf("%s:%d has %d characters, want %d at most", path, i+1, len([]rune(line)), longest)
			}
		}
	})
}
