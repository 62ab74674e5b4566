package settings

import (
	"slices"
	"strings"
)

// Unknown suggests what was meant by an unknown key in a section: a key spelt like it, or the same key elsewhere. A
// suggested key has its whole path, as on a command line.
func (t Table) Unknown(section, name string) string {
	list, _, _ := strings.Cut(section, "[") // items are named by their list
	if hint, ok := t.Hints[Join(list, name)]; ok {
		return hint
	}
	known := t.below(list)
	if near := Nearest(name, known); near != "" {
		return "unknown key; did you mean " + Join(section, near) + "?"
	}
	for _, k := range t.Keys {
		if k.Path == name || strings.HasSuffix(k.Path, "."+name) {
			return "unknown key here; did you mean " + k.Path + "?"
		}
	}
	var elsewhere []string
	for _, k := range t.Keys {
		elsewhere = append(elsewhere, k.Path[strings.LastIndexByte(k.Path, '.')+1:])
	}
	if near := Nearest(name, elsewhere); near != "" && section == "" {
		return "unknown key; did you mean " + t.Keys[slices.Index(elsewhere, near)].Path + "?"
	}
	if len(known) == 0 {
		return "unknown key"
	}
	return "unknown key; known here are " + strings.Join(known, ", ")
}

// below is the names of the keys right below a section.
func (t Table) below(section string) []string {
	var names []string
	for _, k := range t.Keys {
		name, within := strings.CutPrefix(k.Path, Join(section, ""))
		if section == "" {
			name, within = k.Path, true
		}
		if within && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// Nearest is the known word most likely meant by word, or "".
func Nearest(word string, known []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if len(word)-len(k) >= bestDistance {
			continue // whatever stands in it: a word that is sent may be long
		}
		if d := Distance(word, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// Distance counts the letters to add, drop, change or swap with their neighbour to get from a to b; the case does not
// count.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
