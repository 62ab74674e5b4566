// Package diplomacyview shows games of Diplomacy to people: as tables in a terminal, and as one SVG map per phase.
//
// It shows saved games, as package diplomacy reads and writes them, and takes results from the game, not from the
// rules: what it shows is what was recorded.
//
// Start reading at Show and SVG. Where provinces lie is in board_geometry.go and standard.json, which a test makes of
// standard.layout; marks are in svg_unit_and_order_marks.go.
package diplomacyview
