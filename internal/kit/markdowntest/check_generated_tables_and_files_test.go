package markdowntest

import "testing"

func TestReplaced(t *testing.T) {
	t.Parallel()
	table := Head("a", "b") + Row("1", "2")
	const page = "one\n<!-- t -->\nold\n<!-- end of t -->\ntwo\n"
	want := "one\n<!-- t -->\n| a | b |\n|---|---|\n| 1 | 2 |\n<!-- end of t -->\ntwo\n"
	if got, ok := replaced(page, "t", table); !ok || got != want {
		t.Errorf("got %q, %v", got, ok)
	}
	for _, page := range []string{"", "<!-- t -->\nno end", "<!-- end of t -->"} {
		if _, ok := replaced(page, "t", table); ok {
			t.Errorf("a table was found in %q", page)
		}
	}
}
