module tour

go 1.23

require monohull v0.0.0

replace monohull => ../../lib/go
