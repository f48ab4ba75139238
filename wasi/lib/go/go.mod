module monohull

go 1.21
