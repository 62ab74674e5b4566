// Package markdowntest tests that tables in pages are what their source makes of them. A page has a table between two
// marks. The test of whoever owns the facts makes the table again: the page is wrong where the two differ, and is
// rewritten when that is asked for.
//
// Start reading at Hold.
package markdowntest

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// update rewrites pages: go test -run Page -update.
var update = flag.Bool("update", false, "rewrite the tables of the pages that the tests hold")

// Update reports whether pages that differ are rewritten.
func Update() bool { return *update }

// Hold compares a page's table with what it must be. The table is between a line "<!-- NAME -->" and a line
// "<!-- end of NAME -->".
func Hold(t *testing.T, page, name, table string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, ok := replaced(string(text), name, table)
	switch {
	case !ok:
		t.Fatalf("%s has no <!-- %s --> with its end", page, name)
	case want == string(text):
		return
	case !*update:
		t.Fatalf("the table %s of %s is not what it is made from; -update rewrites it", name, page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replaced is a page with another table between the marks; false: the marks are not there.
func replaced(text, name, table string) (string, bool) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	return before + begin + table + end + after, found && ends
}

// Row is a line of a table.
func Row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// Head is the first two lines of a table.
func Head(names ...string) string {
	return Row(names...) + "|" + strings.Repeat("---|", len(names)) + "\n"
}

// File compares a whole file with what it must be; -update writes it.
func File(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what it must be; -update writes it, and git diff shows the difference", name)
	}
}
