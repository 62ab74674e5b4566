// Package config is the configuration of the service's processes, and the file of its tokens, as people write them in
// YAML: the sections, their defaults, the environment variables over them, and the rules that concern several. Package
// document reads the files; what belongs to a part of the service, such as a provider's section, that part declares.
// Only wiring imports this package.
//
// Start reading at Service and ReadService.
package config
