module tour

go 1.23
