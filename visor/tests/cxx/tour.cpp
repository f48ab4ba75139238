// What of C++ needs its library and its unwinder, a line for each.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iomanip>
#include <iostream>
#include <memory>
#include <mutex>
#include <new>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <vector>

struct Base {
	virtual ~Base() {}
};
struct Derived : Base {};
struct Other : Base {};

struct Global {
	std::string text = std::string("constructed") + " before main";
	~Global() { std::cout << "destroyed after main\n"; }
};
static Global global;
static thread_local std::string mine = " of main";

struct Guard {
	~Guard() { std::cout << "unwound\n"; }
};

static void throws(int n)
{
	Guard guard;
	throw std::runtime_error("thrown " + std::to_string(n));
}

static void exceptions()
{
	try {
		throws(7);
	} catch (const std::exception &error) {
		bool is_runtime_error = typeid(error) == typeid(std::runtime_error);
		std::cout << "caught " << error.what() << " as " << (is_runtime_error ? "std::runtime_error" : "?") << '\n';
	}
	try {
		throw 42;
	} catch (int n) {
		std::cout << "a number " << n << '\n';
	}
	std::unique_ptr<Base> base = std::make_unique<Derived>();
	std::cout << "derived: " << std::boolalpha << (dynamic_cast<Derived *>(base.get()) != nullptr) << ' '
			  << (dynamic_cast<Other *>(base.get()) != nullptr) << '\n';
	try {
		(void)dynamic_cast<Other &>(*base);
	} catch (const std::bad_cast &error) {
		std::cout << error.what() << '\n';
	}
	try {
		try {
			throw std::out_of_range("inner");
		} catch (...) {
			std::throw_with_nested(std::logic_error("outer"));
		}
	} catch (const std::exception &outer) {
		try {
			std::rethrow_if_nested(outer);
		} catch (const std::exception &inner) {
			std::cout << "nested: " << outer.what() << ", " << inner.what() << '\n';
		}
	}
}

static void threads()
{
	std::mutex mutex;
	int sum = 0;
	std::vector<std::thread> all;
	for (int i = 0; i < 4; i++)
		all.emplace_back([&, i] {
			mine += std::to_string(i);
			std::lock_guard lock(mutex);
			sum += i;
		});
	for (auto &thread : all) thread.join();
	std::cout << "threads: " << sum << mine << '\n';
	auto future = std::async(std::launch::async, []() -> int { throw std::out_of_range("in a future"); });
	try {
		future.get();
	} catch (const std::out_of_range &error) {
		std::cout << error.what() << '\n';
	}
}

static void text_and_files()
{
	std::cout << std::setw(8) << std::hex << 255 << std::dec << ' ' << std::fixed << std::setprecision(3) << 3.14159 << '\n';
	std::cout << std::regex_replace("one two", std::regex("o(\\w*)"), "<$1>") << '\n';
	std::ofstream("/tmp/a file") << "line 1\nline 2\n";
	std::ifstream file("/tmp/a file");
	for (std::string line; std::getline(file, line);) std::cout << line << ", ";
	std::cout << '\n';
	for (auto &entry : std::filesystem::directory_iterator("/tmp"))
		std::cout << entry.path().filename() << ' ' << entry.file_size() << '\n';
	std::istringstream numbers("1 2 3");
	for (int n; numbers >> n;) std::cout << n << ',';
	std::cout << '\n';
	std::vector<int> order{7, 0, 3, 1};
	std::sort(order.begin(), order.end());
	std::cout << "sorted:";
	for (int n : order) std::cout << ' ' << n;
	std::cout << '\n';
}

static void errors()
{
	try {
		std::vector<int>().at(3);
	} catch (const std::out_of_range &error) {
		std::cout << error.what() << '\n';
	}
	try {
		std::filesystem::file_size("/nothing");
	} catch (const std::filesystem::filesystem_error &error) {
		std::cout << "no such file: " << (error.code() == std::errc::no_such_file_or_directory) << '\n';
	}
	try {
		// Kept, so that the compiler cannot leave it out.
		volatile size_t much = size_t{1} << 46;
		std::cout << static_cast<void *>(new char[much]) << '\n';
	} catch (const std::bad_alloc &) {
		std::cout << "no memory: true\n";
	}
}

int main()
{
	std::cout << global.text << '\n';
	exceptions();
	threads();
	text_and_files();
	errors();
	return EXIT_SUCCESS;
}
